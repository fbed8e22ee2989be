"""A server that streams tokens on loopback, and a benchmark of it that prints vLLM's block from what it has measured.

Arguments: the number of requests, the concurrency, the milliseconds between tokens, and how many requests the server
refuses.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import NamedTuple

TOKENS = 8


class Answer(NamedTuple):
    """Seconds from a request to each of its tokens; none of a request that failed."""

    token_s: tuple[float, ...]


async def measure(requests: int, concurrency: int, token_ms: float, refused: int) -> tuple[list[Answer], float]:
    """Answer all requests, so many at a time; the answers, and the seconds of all."""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        if asked <= refused:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for number in range(TOKENS):
                await asyncio.sleep(token_ms / 1e3)
                writer.write(b"data: %d\n\n" % number)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    slots = asyncio.Semaphore(concurrency)

    async def ask() -> Answer:
        async with slots:
            start_s = time.perf_counter()
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n")
            tokens = []
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    tokens.append(time.perf_counter() - start_s)
            writer.close()
            return Answer(tuple(tokens))

    async with server:
        await ask()  # the initial test run
        asked = 0
        start_s = time.perf_counter()
        answers = await asyncio.gather(*(ask() for _ in range(requests)))
        return list(answers), time.perf_counter() - start_s


def block(answers: list[Answer], seconds: float, concurrency: int) -> list[str]:
    """The lines of vLLM's benchmark."""
    good = [answer.token_s for answer in answers if len(answer.token_s) == TOKENS]
    rates = {"Request throughput (req/s):": len(good), "Output token throughput (tok/s):": len(good) * TOKENS}
    latencies = {
        "TTFT": [times[0] for times in good],
        "TPOT": [(times[-1] - times[0]) / (TOKENS - 1) for times in good],
        "E2EL": [times[-1] for times in good],
    }
    lines = {
        "Successful requests:": str(len(good)),
        "Failed requests:": str(len(answers) - len(good)),
        "Maximum request concurrency:": str(concurrency),
        "Benchmark duration (s):": f"{seconds:.2f}",
        **{label: f"{count / seconds:.2f}" for label, count in rates.items()},
    }
    for name, all_s in latencies.items():
        ordered = sorted(all_s)
        values = {
            "Mean": statistics.fmean(all_s),
            "Median": statistics.median(all_s),
            "P99": ordered[len(all_s) * 99 // 100],
        }
        lines |= {f"{of} {name} (ms):": f"{value * 1e3:.2f}" for of, value in values.items()}
    head = "============ Serving Benchmark Result ============"
    return [head, *(f"{label:<40} {value:<10}" for label, value in lines.items()), "=" * 50]


def main() -> int:
    requests, concurrency, token_ms, refused = (int(text) for text in sys.argv[1:])
    sys.stdout.write(f"Namespace(backend='vllm', max_concurrency={concurrency}, num_prompts={requests}, seed=0)\n")
    answers, seconds = asyncio.run(measure(requests, concurrency, token_ms, refused))
    sys.stdout.write("\n".join(block(answers, seconds, concurrency)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
