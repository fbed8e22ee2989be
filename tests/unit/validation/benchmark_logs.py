"""Outputs of nccl-tests and of serving benchmarks: whole ones of all versions, and what may have happened to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

MIB, GIB = 1 << 20, 1 << 30

# -- nccl-tests ------------------------------------------------------------------------------------

_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int8": 1}
#: Bus over algorithm bandwidth of n ranks.
_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"), lambda n: (n - 1) / n),
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), lambda _: 1.0),
}
COLLECTIVES = tuple(_FACTORS)
_REDUCING = ("all_reduce", "reduce_scatter", "reduce", "sendrecv")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Nccl:
    """One run of a test, as a version of nccl-tests prints it."""

    collective: str = "all_reduce"
    kind: str = "float"
    operation: str = "sum"
    device: str = "NVIDIA H100 80GB HBM3"
    #: That of the last rank, if it is another one.
    last_device: str = ""
    ranks: int = 16
    checked: int = 1
    #: The version that names its collective and verifies by ``#wrong``; the one before has fewer columns.
    is_new: bool = True
    #: The command, if the recipe prints it; the launcher's label.
    command: str = ""
    label: str = ""
    has_ranks: bool = True

    def lines(self) -> list[str]:
        """Its lines, with a bus bandwidth of 480.00 GB/s at 4 GiB."""
        sizes = [512 * MIB << step for step in range(4)]
        head = [self.command] if self.command else []
        if self.is_new:
            head += ["# nccl-tests version 2.17.8", f"# Collective test starting: {self.collective}_perf"]
        sweep = f"minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor)"
        head.append(f"# nThread 1 nGpus 1 {sweep} warmup iters: 5 iters: 20 agg iters: 1 validation: {self.checked}")
        group = " Group  0" if self.is_new else ""
        bus = "0000:1b:00" if self.is_new else "0x1b"
        for rank in range(self.ranks if self.has_ranks else 0):
            device = self.last_device if self.last_device and rank == self.ranks - 1 else self.device
            place = f"Pid {4242 + rank:6d} on       n{rank // 8:03d} device {rank % 8:2d} [{bus}] {device}"
            head.append(f"#  Rank {rank:2d}{group} {place}")
        rows, busbw = zip(*(self._row(size, step) for step, size in enumerate(sizes)), strict=True)
        verdict = [
            "# Out of bounds values : 0 OK",
            f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):g} ",
        ]
        end = [f"# Collective test concluded: {self.collective}_perf"] if self.is_new else []
        return [self.label + line for line in (*head, "#", self._heading(), *rows, *verdict, "#", *end)]

    def _heading(self) -> str:
        names = "time algbw busbw #wrong" if self.is_new else "time algbw busbw error"
        operation = ("redop",) if self.is_new or self.collective in _REDUCING else ()
        root = ("root",) if self.is_new or self.collective in _ROOTED else ()
        return "#       " + "  ".join(("size count type", *operation, *root, names, names))

    def _row(self, size: int, step: int) -> tuple[str, float]:
        factor = _FACTORS[self.collective](self.ranks)
        busbw = 480.0 * (1 - 0.1 * (3 - step))
        algbw = busbw / factor
        operation, root = (
            self.operation if self.collective in _REDUCING else "none",
            int(self.collective in _ROOTED) - 1,
        )
        wrong = ("0" if self.is_new else "1e-07") if self.checked else "N/A"
        figures = f"{size / algbw / 1e3:9.1f} {algbw:7.2f} {busbw:7.2f}"
        shown = [str(size), str(size // _BYTES[self.kind]), self.kind]
        shown += [operation] if self.is_new or self.collective in _REDUCING else []
        shown += [str(root)] if self.is_new or self.collective in _ROOTED else []
        in_place = "N/A" if self.collective == "alltoall" else wrong
        return "  ".join(("   ", *shown, figures, wrong, figures, in_place)), busbw

    def text(self) -> str:
        """Its output."""
        return "".join(f"{line}\n" for line in self.lines())


def nccl_table(
    model: str = "all_reduce", dtype: str = "float", accelerator: str = "H100", gpus: int = 16, more: str = ""
) -> str:
    """A table of one row, whose bandwidth is that of :class:`Nccl`."""
    return (
        f"model: {model}\nframework: nccl-tests\ndtype: {dtype}\naccelerator: {accelerator}\ngpus_per_node: 8\n"
        f"recipe: {{directory: ./nccl}}\n{more}tables:\n"
        f"  - {{title: t, metric: busbw_gbs, at: 4 GiB, rows: [{{gpus: {gpus}, value: 480}}]}}\n"
    )


COMMAND = "+ srun --mpi=pmix ./build/{}_perf -b 512M -e 4G -f 2 -g 1"
GOOD_NCCL = {
    **{f"{name}, named": (Nccl(name), nccl_table(name)) for name in COLLECTIVES},
    **{f"{name}, by its rows": (Nccl(name, is_new=False), nccl_table(name)) for name in COLLECTIVES},
    "by its command": (
        Nccl("alltoall", is_new=False, command=COMMAND.format("alltoall")),
        nccl_table("alltoall"),
    ),
    "half": (Nccl(kind="half"), nccl_table(dtype="fp16")),
    "bfloat16": (Nccl(kind="bfloat16"), nccl_table(dtype="bf16")),
    "float32": (Nccl(), nccl_table(dtype="fp32")),
    "labels of srun": (Nccl(label="0: "), nccl_table()),
    "labels of mpirun": (Nccl(label="[1,0]<stdout>:"), nccl_table()),
    "A100 of 80 GB": (Nccl(device="NVIDIA A100-SXM4-80GB"), nccl_table(accelerator="A100-80GB")),
    "A100 of any memory": (Nccl(device="NVIDIA A100-SXM4-40GB"), nccl_table(accelerator="A100")),
    "V100": (Nccl(device="Tesla V100-SXM2-32GB"), nccl_table(accelerator="V100-32GB")),
    "MI300X": (Nccl(device="AMD Instinct MI300X OAM"), nccl_table(accelerator="MI300X")),
    "GH200": (Nccl(device="NVIDIA GH200 120GB"), nccl_table(accelerator="GH200")),
    "GH200 with its own memory, not that of its CPU": (
        Nccl(device="NVIDIA GH200 120GB"),
        nccl_table(accelerator="GH200-96GB"),
    ),
    **{
        f"{wanted} by a name of two": (Nccl(device="AMD Instinct MI250X/MI250"), nccl_table(accelerator=wanted))
        for wanted in ("MI250X", "MI250")
    },
    **{
        f"{written} for {name}": (Nccl(name, is_new=is_new), nccl_table(written))
        for name, written in (("all_reduce", "all-reduce"), ("all_gather", "allgather"), ("alltoall", "all_to_all"))
        for is_new in (True, False)
    },
    **{
        f"{device} for {wanted}": (Nccl(device=device), nccl_table(accelerator=wanted))
        for device, wanted in (
            ("NVIDIA H100 PCIe", "H100"),
            ("NVIDIA H100 PCIe", "H100-PCIe"),
            ("NVIDIA H100 80GB HBM3", "H100-SXM"),
            ("NVIDIA H100 80GB HBM3", "H100SXM5"),
            ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
            ("NVIDIA A100-SXM4-80GB", "A100-SXM"),
        )
    },
    "validated, as stated by the option's name": (Nccl(), nccl_table(more="attributes: {check: 'true'}\n")),
    "a device without a name": (Nccl(device="Graphics Device"), nccl_table()),
    "another accelerator that tables lack": (Nccl(device="NVIDIA H800"), nccl_table(accelerator="H800")),
    "not validated": (Nccl(checked=0), nccl_table()),
    "another reduction, as stated": (Nccl(operation="max"), nccl_table(more="attributes: {redop: max}\n")),
    "without ranks": (Nccl(has_ranks=False), nccl_table()),
}  # fmt: skip

#: Runs of another set-up than a row's.
OTHER_NCCL = {
    **{f"{kind} for float": (Nccl(kind=kind), nccl_table()) for kind in ("half", "bfloat16", "double", "int8")},
    **{
        f"{device} for {wanted}": (Nccl(device=device), nccl_table(accelerator=wanted))
        for device, wanted in (
            ("NVIDIA A100-SXM4-80GB", "H100"),
            ("NVIDIA H200", "H100"),
            ("NVIDIA B200", "GB200"),
            ("NVIDIA A100-SXM4-40GB", "A100-80GB"),
            ("AMD Instinct MI250X", "MI300X"),
            ("NVIDIA H800", "H100"),
            ("AMD Instinct MI250X/MI250", "MI300X"),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100"),
            ("NVIDIA H100 PCIe", "H100-SXM"),
            ("NVIDIA H100 PCIe", "H100SXM"),
            ("NVIDIA H100 NVL", "H100-PCIe"),
            ("NVIDIA H100 80GB HBM3", "H100-PCIe"),
            ("NVIDIA A100-SXM4-80GB", "A100-PCIe"),
            ("Tesla V100-PCIE-32GB", "V100-SXM2-32GB"),
        )
    },
    **{f"{one} for {two}, named": (Nccl(one), nccl_table(two)) for one in COLLECTIVES for two in COLLECTIVES if one != two},
    **{
        f"{one} for {two}, by its rows": (Nccl(one, is_new=False), nccl_table(two))
        for one in COLLECTIVES
        for two in COLLECTIVES
        if one != two and {one, two} not in ({"all_gather", "alltoall"}, {"gather", "scatter"})
    },
    "alltoall for all_gather, by its command": (
        Nccl("all_gather", is_new=False, command=COMMAND.format("alltoall")),
        nccl_table("all_gather"),
    ),
    "8 ranks for 16": (Nccl(ranks=8), nccl_table()),
    "32 ranks for 16": (Nccl(ranks=32), nccl_table()),
    "not validated, against the row": (Nccl(checked=0), nccl_table(more="attributes: {validation: 'on'}\n")),
    "another operation, by the option's name": (Nccl(operation="prod"), nccl_table(more="attributes: {op: sum}\n")),
    "another reduction, against the row": (Nccl(operation="prod"), nccl_table(more="attributes: {redop: sum}\n")),
    "two kinds of devices": (
        Nccl(last_device="NVIDIA A100-SXM4-80GB"),
        nccl_table(),
    ),
}  # fmt: skip


def damaged_nccl() -> Iterator[tuple[str, str]]:
    """What may have happened to a good output."""
    lines = Nccl(ranks=16).lines()
    first = next(at for at, line in enumerate(lines) if line.startswith("     536870912"))
    rows = range(first, first + 4)
    for end in range(2, len(lines) - 2):
        yield f"cut after line {end}", "".join(f"{line}\n" for line in lines[:end])
    for row in rows:
        words = lines[row].split()
        for name, at in (("busbw", 7), ("in place", 11)):
            for text in ("nan", "inf", "-1.00", "5.00", "999.99", "48O.00"):
                yield f"{name} {text} in row {row - first}", _with(lines, row, [*words[:at], text, *words[at + 1 :]])
        for name, at in (("#wrong", 8), ("#wrong in place", 12)):
            for text in ("3", "nan", *(("N/A",) if at == 8 else ())):
                yield f"{name} {text} in row {row - first}", _with(lines, row, [*words[:at], text, *words[at + 1 :]])
        yield f"row {row - first} lost", _with(lines, row, None)
        yield f"row {row - first} twice", _with(lines, row, [*words, "\n", *words])
        yield f"row {row - first} cut", _with(lines, row, words[:7])
        yield f"row {row - first} of another type", _with(lines, row, [*words[:2], "half", *words[3:]])
        yield f"row {row - first} of another process", _with(lines, row, ["3:", *words])
    yield "the heading lost", _with(lines, first - 1, None)
    for verdict in ("# Out of bounds values : 7 FAILED", "# Out of bounds values : 1 OK", "# Out of bounds"):
        yield verdict, _with(lines, first + 4, verdict.split())
    for average in ("40", "nan", "FAILED", "4080", "408 FAILED"):
        yield f"average {average}", _with(lines, first + 5, ["#", "Avg", "bus", "bandwidth", ":", average])
    whole = "".join(f"{line}\n" for line in lines)
    yield "two runs", whole + whole
    yield "a run that was cut behind it", whole + "".join(f"{line}\n" for line in lines[: first + 2])


def _with(lines: Sequence[str], at: int, words: Sequence[str] | None) -> str:
    changed = [] if words is None else ["     " + "  ".join(words)]
    return "".join(f"{line}\n" for line in (*lines[:at], *changed, *lines[at + 1 :]))


# -- Serving ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Serving:
    """One run of a benchmark of a server."""

    model: str = "meta-llama/Llama-3.1-70B-Instruct"
    dataset: str = "random"
    input_length: int = 128
    output_length: int = 1000
    prompts: int = 3000
    concurrency: int = 64
    rate: str = "inf"
    successful: int | None = None
    failed: int | None = 0
    #: What is printed: ``arguments``, ``command``, ``bar``.
    shows: tuple[str, ...] = ("arguments", "bar")

    def lines(self) -> list[str]:
        """Its lines, with 2,000 tokens per second and a median of 60 ms to the first token."""
        done = self.prompts if self.successful is None else self.successful
        seconds = done * self.output_length / 2000
        found = []
        if "arguments" in self.shows:
            found.append(
                "Namespace(backend='vllm', seed=0, "
                f"num_prompts={self.prompts}, dataset_name={self.dataset!r}, sonnet_input_len=550, "
                f"sharegpt_output_len=None, random_input_len={self.input_length}, "
                f"random_output_len={self.output_length}, max_concurrency={self.concurrency}, "
                f"model={self.model!r}, tokenizer=None, request_rate={self.rate}, burstiness=1.0)"
            )
        if "command" in self.shows:
            found.append(
                f"+ vllm bench serve --model {self.model} --dataset-name {self.dataset} "
                f"--random-input-len {self.input_length} --random-output-len={self.output_length} "
                f"--num-prompts {self.prompts} --max-concurrency {self.concurrency} --request-rate {self.rate}"
            )
        found.append("Starting main benchmark run...")
        if "bar" in self.shows:
            found.append(f"100%|##########| {self.prompts}/{self.prompts} [25:00<00:00,  2.00it/s]")
        failed = [] if self.failed is None else [f"{'Failed requests:':<40} {self.failed}"]
        return [
            *found,
            "============ Serving Benchmark Result ============",
            f"{'Successful requests:':<40} {done}",
            *failed,
            f"{'Maximum request concurrency:':<40} {self.concurrency}",
            f"{'Benchmark duration (s):':<40} {seconds:.2f}",
            f"{'Total input tokens:':<40} {done * self.input_length}",
            f"{'Total generated tokens:':<40} {done * self.output_length}",
            f"{'Request throughput (req/s):':<40} {done / seconds:.2f}",
            f"{'Output token throughput (tok/s):':<40} 2000.00",
            f"{'Total Token throughput (tok/s):':<40} {2000 * (1 + self.input_length / self.output_length):.2f}",
            "---------------Time to First Token----------------",
            f"{'Mean TTFT (ms):':<40} 61.50",
            f"{'Median TTFT (ms):':<40} 60.00",
            f"{'P99 TTFT (ms):':<40} 99.00",
            "=" * 50,
        ]

    def text(self) -> str:
        """Its output."""
        return "".join(f"{line}\n" for line in self.lines())


STATED = "attributes: {input_length: '128', output_length: '1,000', num_prompts: 3000, request_rate: inf}\n"


def serving_table(
    model: str = "llama3.1", size: str = "70b", more: str = STATED, metric: str = "ttft_ms_median", value: float = 60
) -> str:
    """A table of one row, whose figure is that of :class:`Serving`."""
    return (
        f"model: {model}\n{f'size: {size}' if size else ''}\nframework: serving\ndtype: bf16\naccelerator: H100\n"
        f"gpus_per_node: 8\nrecipe: {{directory: ./serving}}\n{more}tables:\n"
        f"  - {{title: t, metric: {metric}, at: concurrency 64, rows: [{{gpus: 8, value: {value}}}]}}\n"
    )


_BLOCK_ALONE = Serving(shows=(), failed=0)
GOOD_SERVING = {
    "by its arguments": (Serving(), serving_table()),
    "by its command": (Serving(shows=("command",)), serving_table()),
    "by both": (Serving(shows=("command", "arguments", "bar")), serving_table()),
    "by its block": (_BLOCK_ALONE, serving_table()),
    "by its bar": (Serving(shows=("bar",), failed=None), serving_table()),
    "a rate": (Serving(), serving_table(metric="output_tokens_per_s", value=2000)),
    "a row that states nothing": (Serving(), serving_table(more="")),
    "a model without a size": (Serving("deepseek-ai/DeepSeek-V3-0324"), serving_table("deepseek-v3", "671b")),
    "a whole name": (Serving(), serving_table("llama-3.1-70b-instruct", "")),
    "a name on a hub": (Serving("openai/gpt-oss-120b"), serving_table("gpt-oss", "120b")),
    "a mixture": (Serving("mistralai/Mixtral-8x7B-Instruct-v0.1"), serving_table("mixtral", "8x7b")),
    "active parameters": (Serving("Qwen/Qwen3-235B-A22B"), serving_table("qwen3", "235b")),
    "a path": (Serving("/scratch/models/Meta-Llama-3.1-70B"), serving_table()),
    "a path that names no model": (Serving("/weights"), serving_table()),
    "a path that names its model first": (Serving("/lustre/2t/Llama-3.1-70B/hf"), serving_table()),
    "a path of model and size": (Serving("/models/llama3.1/70b/hf"), serving_table()),
    "a command that a shell has not expanded": (
        Serving("${MODEL}", shows=("command",)),
        serving_table(),
    ),
    "a list of points for its recipe": (
        Serving(),
        serving_table(more="").replace("./serving", './serving, environment: {CONCURRENCY: "16,32,64"}'),
    ),
    "a snapshot": (
        Serving("/hub/models--meta-llama--Llama-3.1-70B-Instruct/snapshots/0e9e39f249a16976918f6564b8830bc894c8947b"),
        serving_table(),
    ),
    **{
        f"{length} tokens for {written}": (
            Serving(input_length=length),
            serving_table(more=f"attributes: {{input_length: {written}}}\n"),
        )
        for length, written in ((1024, "1k"), (1000, "1k"), (8192, "8K"), (8000, "8 K tokens"), (1024, "'1,024'"))
    },
    "thousands of requests": (Serving(), serving_table(more="attributes: {num_prompts: 3k}\n")),
    "parameters and experts": (
        Serving("meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        serving_table("llama4", "17b-16e", more=""),
    ),
    "parameters of some experts": (
        Serving("meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        serving_table("llama4", "17b", more=""),
    ),
    "a name of its own, as stated": (Serving("prod"), serving_table(more="attributes: {served_model_name: prod}\n")),
    "a path, as stated": (Serving("/ours/70b"), serving_table(more="attributes: {served_model: /ours/70b}\n")),
    "another data set": (Serving(dataset="sharegpt", output_length=210), serving_table(more="")),
    "names of its program": (
        Serving(),
        serving_table(more="attributes: {random_input_len: 128, ISL: 128, OSL: 1000 tokens, requests: '3000'}\n"),
    ),
    "what its recipe is given": (
        Serving(),
        serving_table(more="").replace("./serving", './serving, environment: {NUM_PROMPTS: "3000", OUTPUT_LEN: "1000"}'),
    ),
}  # fmt: skip

#: Names of which it is open if they are the row's model, by the table.
OPEN_MODELS = {
    **dict.fromkeys(("prod", "llama-70b", "Qwen2.5-70B", "/models/ours-70b"), serving_table()),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": serving_table("llama4", "109b", more=""),
    "mistralai/Mixtral-8x7B-v0.1": serving_table("mixtral", "47b", more=""),
}
_SIGNS = {"arguments": ("arguments", "bar"), "the command": ("command",)}
OTHER_SERVING = {
    **{
        f"{name}, by {signs}": (replace(other, shows=shows), serving_table())
        for signs, shows in _SIGNS.items()
        for name, other in {
            "8B for 70b": Serving("meta-llama/Llama-3.1-8B-Instruct"),
            "another model": Serving("Qwen/Qwen2.5-70B"),
            "an older model": Serving("meta-llama/Llama-2-70b-chat-hf"),
            "another model's path": Serving("/scratch/models/opt-125m"),
            "another model in a path": Serving("/scratch/Qwen2.5-72B/hf"),
            "8B for 70b in a path": Serving("/scratch/Llama-3.1-8B-Instruct/hf"),
            "10 tokens of output for 1,000": Serving(output_length=10),
            "1,024 tokens of input for 128": Serving(input_length=1024),
            "10 requests for 3,000": Serving(prompts=10),
            "a rate for none": Serving(rate="4.0"),
        }.items()
    },
    **{
        f"{length} tokens for {written}": (
            Serving(input_length=length),
            serving_table(more=f"attributes: {{input_length: {written}}}\n"),
        )
        for length, written in ((128, "1k"), (1, "1k"), (1000, "1024"))
    },
    "128 experts for 16": (
        Serving("meta-llama/Llama-4-Maverick-17B-128E-Instruct"),
        serving_table("llama4", "17b-16e", more=""),
    ),
    "another name than the stated one": (
        Serving("test"),
        serving_table(more="attributes: {served_model_name: prod}\n"),
    ),
    "against what a placeholder of its recipe is": (
        Serving(output_length=10),
        serving_table(more="sequence_length: 1000\n").replace(
            "./serving", './serving, environment: {OUTPUT_LEN: "{sequence_length}"}'
        ),
    ),
    "10 tokens of output for 1,000, by the block": (replace(_BLOCK_ALONE, output_length=10), serving_table()),
    "4,096 tokens of input for 128, by the block": (replace(_BLOCK_ALONE, input_length=4096), serving_table()),
    "10 requests for 3,000, by the block": (replace(_BLOCK_ALONE, prompts=10), serving_table()),
    "8B for 70B in one name": (
        Serving("meta-llama/Llama-3.1-8B-Instruct"),
        serving_table("llama-3.1-70b-instruct", ""),
    ),
    "a newer model": (Serving(), serving_table("llama3", more="")),
    "against what its recipe is given": (
        Serving(output_length=10),
        serving_table(more="").replace("./serving", './serving, environment: {OUTPUT_LEN: "1000"}'),
    ),
    "the concurrency of another point": (Serving(concurrency=32), serving_table()),
    "1 of 3,000 by the bar": (Serving(successful=1, shows=("bar",), failed=None), serving_table(more="")),
    "1 of 3,000 by the arguments": (Serving(successful=1, shows=("arguments",), failed=None), serving_table(more="")),
    "40 of 3,000 by the command": (Serving(successful=40, shows=("command",), failed=None), serving_table(more="")),
    "40 of 3,000 by the failed ones": (Serving(successful=40, failed=2960, shows=()), serving_table(more="")),
    "40 of 3,000 by the row": (Serving(successful=40, shows=(), failed=None), serving_table()),
    "40 of some": (Serving(successful=40, shows=(), failed=None), serving_table(more="")),
    "1 of some": (Serving(successful=1, shows=(), failed=None), serving_table(more="")),
    "all of some": (Serving(shows=(), failed=None), serving_table()),
}  # fmt: skip


def damaged_serving() -> Iterator[tuple[str, str]]:
    """What may have happened to a good output."""
    lines = Serving().lines()
    for end in range(1, len(lines)):
        yield f"cut after line {end}", "".join(f"{line}\n" for line in lines[:end])
    judged = next(at for at, line in enumerate(lines) if line.startswith("Median TTFT"))
    for text in ("nan", "inf", "-60.00", "0.00", "", "6.00", "600.00", "6O.00"):
        yield f"a median of {text}", _with_value(lines, judged, text)
    done = next(at for at, line in enumerate(lines) if line.startswith("Successful"))
    for text in ("0", "1", "40", "2999", "nan", ""):
        yield f"{text} successful requests", _with_value(lines, done, text)
    for text in ("1", "2960", "nan"):
        yield f"{text} failed requests", _with_value(lines, done + 1, text)
    whole = "".join(f"{line}\n" for line in lines)
    yield "two runs", whole + whole
    yield "a run that was cut behind it", whole + "".join(f"{line}\n" for line in lines[:9])
    yield "a warm-up behind it", whole + "warm-up\n" + whole


def _with_value(lines: Sequence[str], at: int, text: str) -> str:
    changed = f"{lines[at].partition(':')[0]}:   {text}"
    return "".join(f"{line}\n" for line in (*lines[:at], changed, *lines[at + 1 :]))
