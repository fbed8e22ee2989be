"""How a run was set up, as each framework prints it: written by hand after what the frameworks print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.logs.identity import PRINTED, identity_markers, with_identity
from pytest_gsw.logs.model import Identity, StepLog
from pytest_gsw.logs.scan import alternatives, is_wanted


def said(format_name: str, text: str) -> dict[str, object]:
    """What lines of a log say, as the reader would hand them over."""
    wanted = alternatives(identity_markers(format_name))
    offset, records = 0, []
    for line in text.encode().split(b"\n"):
        if is_wanted(line, wanted):
            records.append((offset, line))
        offset += len(line) + 1
    return with_identity(StepLog(format_name, (), attempts=0), records).identity.stated


MEGATRON = """\
using world size: 32, data-parallel size: 2, context-parallel size: 1 tensor-model-parallel size: 4, pipeline-model-parallel size: 4
------------------------ arguments ------------------------
  bf16 ............................................ True
  checkpoint_num_layers ........................... 1
  context_parallel_size ........................... 1
  data_parallel_size .............................. 2
  decoder_seq_length .............................. None
  encoder_seq_length .............................. 512
  encoder_tensor_model_parallel_size .............. 0
  expert_model_parallel_size ...................... 1
  ffn_hidden_size ................................. 8192
  fp16 ............................................ False
  fp16_lm_cross_entropy ........................... False
  fp8 ............................................. None
  fp8_amax_history_len ............................ 1
  hidden_size ..................................... 2048
  micro_batch_size ................................ 3
  moe_ffn_hidden_size ............................. None
  num_layers ...................................... 24
  num_layers_per_virtual_pipeline_stage ........... 2
  padded_vocab_size ............................... 50304
  params_dtype .................................... torch.bfloat16
  pipeline_model_parallel_size .................... 4
  recompute_num_layers ............................ None
  retriever_seq_length ............................ 256
  seq_length ...................................... 1024
  tensor_model_parallel_size ...................... 4
  virtual_pipeline_model_parallel_size ............ None
-------------------- end of arguments ---------------------
"""
MEGATRON_SAYS = {
    "gpus": 32,
    "sequence_length": 1024,
    "micro_batch_size": 3,
    "layers": 24,
    "hidden_size": 2048,
    "precision": "bf16",
    "quantization": "none",
    "tp": 4,
    "pp": 4,
    "cp": 1,
    "ep": 1,
    "dp": 2,
}
NEMO = """\
[NeMo I 2031-02-03 04:05:06 pretraining:30]
    name: gpt
    trainer:
      num_nodes: 4
      precision: bf16
      max_steps: 50
    model:
      micro_batch_size: 2
      global_batch_size: 64
      tensor_model_parallel_size: 8
      pipeline_model_parallel_size: 1
      virtual_pipeline_model_parallel_size: null
      context_parallel_size: 2
      encoder_seq_length: 4096
      max_position_embeddings: ${.encoder_seq_length}
      num_layers: 32
      hidden_size: 5120
      ffn_hidden_size: 20480
      activations_checkpoint_num_layers: null
      fp16_lm_cross_entropy: false
      fp8: true  # in the transformer engine
      data:
        seq_length: 4096
      vision:
        num_layers: 12
        hidden_size: 1024
"""
NEMO_SAYS = {
    "global_batch_size": 64,
    "sequence_length": 4096,
    "micro_batch_size": 2,
    "layers": 32,
    "hidden_size": 5120,
    "precision": "bf16",
    "quantization": "fp8",
    "tp": 8,
    "pp": 1,
    "cp": 2,
}
MAXTEXT = """\
Config param base_emb_dim: 4096
Config param base_num_decoder_layers: 32
Config param dcn_data_parallelism: -1
Config param dcn_fsdp_parallelism: 4
Config param dcn_tensor_parallelism: 1
Config param dtype: bfloat16
Config param emb_dim: 8192
Config param eval_per_device_batch_size: 0
Config param global_batch_size_to_load: 512
Config param global_batch_size_to_train_on: 256
Config param ici_data_parallelism: 1
Config param ici_fsdp_parallelism: 8
Config param ici_tensor_parallelism: 2
Config param max_prefill_predict_length: 64
Config param max_target_length: 2048
Config param num_decoder_layers: 64
Config param per_device_batch_size: 0.5
Config param quantization: fp8
Config param quantization_local_shard_count: 1
Config param weight_dtype: float32
"""
DEEPSPEED = """\
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print]   bfloat16_enabled ............. True
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print]   fp16_auto_cast ............... None
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print]   fp16_enabled ................. False
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print]   train_batch_size ............. 48
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  6
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print]   world_size ................... 8
[2031-02-03 04:05:06,789] [INFO] [config.py:1001:print_user_config]   json = {
    "max_train_micro_batch_size_per_gpu": 1.024000e+03,
    "train_micro_batch_size_per_gpu": 5,
"""
TITAN = """\
[rank0]:[titan] 2031-02-03 04:05:06,789 - root - INFO - Building device mesh with parallelism: pp=1, dp_replicate=2, \
dp_shard=4, cp=1, tp=2, ep=1
[rank0]:[titan] 2031-02-03 04:05:07,789 - root - INFO - Float8 tensorwise scaled training active
[rank0]:[titan] 2031-02-03 04:05:07,789 - root - INFO - Building llama3 8B with TransformerModelArgs(_enforced='no', \
dim=4096, n_layers=32, n_heads=32, ffn_dim_multiplier=1.3, head_dim=128, max_seq_len=8192)
[rank0]:[titan] 2031-02-03 04:05:08,789 - root - INFO - Trainer is initialized with local batch size 2, global batch \
size 16, gradient accumulation steps 1, sequence length 2048, total steps 10 (warmup 2)
"""
FIDDLE = """\
I0203 04:05:06.789012 139683713698688 train.py:186]   input.batch_size : 4
I0203 04:05:06.789012 139683713698688 train.py:186]   input.seq_len : 2048
I0203 04:05:06.789012 139683713698688 train.py:189]   model.fprop_dtype : dtype[bfloat16]
I0203 04:05:06.789012 139683713698688 train.py:189]   model.lm_tpl.fprop_dtype : NoneType
I0203 04:05:06.789012 139683713698688 train.py:189]   model.lm_tpl.model_dims : 12288
I0203 04:05:06.789012 139683713698688 train.py:189]   model.lm_tpl.stacked_transformer_tpl.block.num_layers : 2
I0203 04:05:06.789012 139683713698688 train.py:189]   model.lm_tpl.stacked_transformer_tpl.x_times : 48
"""


@pytest.mark.parametrize(
    ("format_name", "text", "expected"),
    [
        ("megatron", MEGATRON, MEGATRON_SAYS),
        ("deepspeed", MEGATRON, MEGATRON_SAYS),
        ("nemo", NEMO, NEMO_SAYS),
        (
            "maxtext",
            MAXTEXT,
            {
                "global_batch_size": 256,
                "sequence_length": 2048,
                "layers": 64,
                "hidden_size": 8192,
                "precision": "bf16",
                "quantization": "fp8",
                "tp": 2,
                "fsdp": 32,
            },
        ),
        ("deepspeed", DEEPSPEED, {"global_batch_size": 48, "micro_batch_size": 6, "precision": "bf16", "dp": 8}),
        (
            "torchtitan",
            TITAN,
            {
                "global_batch_size": 16,
                "sequence_length": 2048,
                "micro_batch_size": 2,
                "layers": 32,
                "hidden_size": 4096,
                "quantization": "fp8",
                "tp": 2,
                "pp": 1,
                "cp": 1,
                "ep": 1,
                "dp": 8,
            },
        ),
        ("paxml", FIDDLE, {"sequence_length": 2048, "layers": 96, "hidden_size": 12288, "precision": "bf16"}),
    ],
)
def test_a_whole_configuration(format_name: str, text: str, expected: dict[str, object]) -> None:
    assert said(format_name, text) == expected


def labelled(text: str, label: str) -> str:
    return "".join(f"{label}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("label", ["0: ", "  0: ", "127: ", "[default0]:", "[1,0]<stdout>:"])
def test_a_launchers_label_changes_nothing(label: str) -> None:
    assert said("megatron", labelled(MEGATRON, label)) == MEGATRON_SAYS
    if not label.startswith("[1"):
        assert said("nemo", labelled(NEMO, label)) == NEMO_SAYS


@pytest.mark.parametrize(
    ("format_name", "line", "expected"),
    [
        ("maxtext", "All distributed processes registered. Starting with 16 processes", {"gpus": 16}),
        ("maxtext", "  global_batch_size ............................... 1024", {"global_batch_size": 1024}),
        ("maxtext", "  --global-batch-size 2048", {}),
        ("maxtext", ':::MLLOG {"key": "global_batch_size", "value": 1536, "metadata": {}}', {"global_batch_size": 1536}),
        ("megatron", "  seq_length ...................... 2048........................updated", {"sequence_length": 2048}),
        ("megatron", "  precision ....................... fp16........................updated", {"precision": "fp16"}),
        ("megatron", "  model_parallel_size ............. 4", {"tp": 4}),
        ("megatron", "  pipe_parallel_size .............. 0...........................default", {}),
        ("megatron", "  train_micro_batch_size_per_gpu .. 64..........................updated", {"micro_batch_size": 64}),
        ("megatron", "  seq_length ...................................... None", {}),
        ("megatron", "  --seq-length 2048 --num-layers 70 --hidden-size 14336", {}),
        ("megatron", "  fp8 ............................................. hybrid", {"quantization": "fp8"}),
        ("megatron", "  fp8_recipe ...................................... delayed", {}),
        ("megatron", "  fp4 ............................................. nvfp4", {"quantization": "nvfp4"}),
        ("megatron", "  fp4 ............................................. e2m1", {"quantization": "fp4"}),
        ("megatron", "  seq_length ...................................... 4,096", {"sequence_length": 4096}),
        ("megatron", "  fp16 ............................................ True", {"precision": "fp16"}),
        ("megatron", "  bf16 ............................................ False", {}),
        ("megatron", "[20310203 04:05:06][rank-0/8][INFO ] known_args[seq_length] = 8192", {"sequence_length": 8192}),
        ("megatron", "[20310203 04:05:06][rank-0/8][INFO ] known_args[mtp_num_layers] = None", {}),
        ("megatron", "  num_layers: 25", {"layers": 25}),
        ("megatron", "  fp8: null", {"quantization": "none"}),
        ("megatron", "  hidden_size: 1920, and more", {}),
        (
            "megatron",
            ("Setting up optimizer with config OptimizerConfig(optimizer='adam', fp8_recipe='delayed', fp16=False, bf16=True,"
            " params_dtype=torch.bfloat16, main_params_dtype=torch.float32)"),
            {"precision": "bf16"},
        ),
        (
            "nemo",
            ("Building GPTDataset splits with sizes=[8, 2, 1] and config=GPTDatasetConfig(random_seed=1234, sequence_length=8192,"
            " blend=None)"),
            {"sequence_length": 8192},
        ),
        ("nemo", "      precision: 16", {"precision": "fp16"}),
        ("nemo", "      precision: bf16-mixed", {"precision": "bf16"}),
        ("nemo", "      precision: 32-true", {"precision": "fp32"}),
        ("nemo", "    amp_precision: 16", {}),
        ("nemo", "      fp8: false", {"quantization": "none"}),
        ("nemo", "      fp8_hybrid: true", {}),
        ("nemo", "precision: 16", {}),
        ("nemo", "      tensor_model_parallel_size: ${model.tp}", {}),
        ("nemo", ':::MLLOG {"key": "max_sequence_length", "value": 8192, "metadata": {}}', {"sequence_length": 8192}),
        (
            "nemo",
            ('DLLL {"step": "PARAMETER", "data": {"cfg/encoder_seq_length": 2048, "cfg/num_layers": 96, "cfg/fp8": true,'
            ' "cfg/precision": "bf16"}}'),
            {"sequence_length": 2048, "layers": 96, "quantization": "fp8", "precision": "bf16"},
        ),
        ("maxtext", "Config param quantization: ", {"quantization": "none"}),
        ("maxtext", "Config param quantization: 'int8'", {"quantization": "int8"}),
        ("maxtext", "I0203 04:05:06.789012 139 pyconfig.py:413] Config param dtype: float32", {"precision": "fp32"}),
        ("maxtext", "Config param ici_fsdp_parallelism: -1\nConfig param dcn_fsdp_parallelism: 4", {}),
        ("maxtext", "Config param ici_fsdp_parallelism: 8", {}),
        ("maxtext", "Config param max_target_length: 2048 tokens", {}),
        ("huggingface", "  Instantaneous batch size per device = 4", {"micro_batch_size": 4}),
        ("huggingface", "  Instantaneous batch size per device = 1,024", {"micro_batch_size": 1024}),
        ("huggingface", "bf16=True,", {"precision": "bf16"}),
        ("huggingface", "bf16=False,\nfp16=False,", {}),
        ("huggingface", "fp16_full_eval=True,", {}),
        ("huggingface", "TrainingArguments(output_dir=x, bf16=False, fp16=True, seed=42)", {"precision": "fp16"}),
        ("torchtitan", "arguments training.mixed_precision_param............. bfloat16", {}),
        ("torchtitan", "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=-1, cp=1", {"pp": 1, "cp": 1}),
        ("paxml", "I0203 train.py:189]   model.lm_tpl.stacked_transformer_tpl.block.num_layers : 2", {}),
        ("paxml", "I0203 train.py:189]   model.decoder_tpl.seqlen : 0", {}),
    ],
)  # fmt: skip
def test_one_line(format_name: str, line: str, expected: dict[str, object]) -> None:
    assert said(format_name, line) == expected


def test_both_precisions_switched_off_are_single_precision() -> None:
    off = "  bf16 ............ False\n  fp16 ............ False\n"
    assert said("megatron", off) == {"precision": "fp32"}
    assert said("megatron", f"{off}  params_dtype ............ torch.float16") == {"precision": "fp16"}
    # Where the precision has a name that is not known, the switches are not taken for it.
    assert said("megatron", f"{off}  params_dtype ............ torch.float64") == {}


def test_of_several_runs_in_a_file_the_last_counts() -> None:
    assert said("megatron", MEGATRON.replace("1024", "4096") + MEGATRON) == MEGATRON_SAYS
    far = "x" * 10_000
    assert said("nemo", f"{NEMO.replace('4096', '1024')}{far}\n{NEMO}") == NEMO_SAYS


def test_what_one_configuration_says_twice_and_not_alike_is_not_known() -> None:
    siblings = "    model:\n      encoder:\n        num_layers: 12\n      decoder:\n        num_layers: 24\n"
    assert said("nemo", siblings) == {}
    assert said("nemo", siblings.replace("12", "24")) == {"layers": 24}
    # Data to train on and data to validate with have each a batch size of their own.
    text = "    train_ds:\n      global_batch_size: 64\n    validation_ds:\n      global_batch_size: 16\n"
    assert "global_batch_size" not in said("nemo", text)
    assert said("nemo", text.replace("16", "64"))["global_batch_size"] == 64


def test_what_of_a_configuration_counts() -> None:
    # Of a tree the outermost counts.
    tuning = (
        "    model:\n      micro_batch_size: 4\n      data:\n        validation_ds:\n          micro_batch_size: 1\n"
    )
    assert said("nemo", tuning) == {"micro_batch_size": 4}
    # The configuration as it is used counts before the file that is shown.
    template = "|   precision: 16\n|   fp8: false\n"
    assert said("nemo", template + NEMO) == NEMO_SAYS


def test_an_encoder_with_ranks_of_its_own_leaves_the_data_parallel_size_open() -> None:
    own = MEGATRON.replace(
        "encoder_tensor_model_parallel_size .............. 0", "encoder_tensor_model_parallel_size .. 2"
    )
    assert said("megatron", own) == {name: value for name, value in MEGATRON_SAYS.items() if name != "dp"}


def test_a_recipes_own_line_may_hold_settings() -> None:
    line = "GSW: MODEL=m SEQ_LEN=4096 GBS=64 MBS=2 NUM_LAYERS=7 TP=4 PP=x CP=0 IMAGE='/a/b.sqsh' GSW_VERSION=24.11"
    assert said("paxml", line) == {
        "model": "m",
        "sequence_length": 4096,
        "global_batch_size": 64,
        "micro_batch_size": 2,
        "layers": 7,
        "tp": 4,
        "image": "/a/b.sqsh",
        "release": "24.11",
    }


def test_places_and_what_counts_before() -> None:
    # What ran counts before what the recipe had asked for.
    asked = b"GSW: MODEL=m JOB_NUM_NODES=8 GPUS_PER_NODE=8 SEQ_LEN=4096"
    ran = b"using world size: 32, data-parallel-size: 8"
    found = with_identity(StepLog("megatron", (), attempts=0), [(0, asked), (60, ran)]).identity
    assert (found.gpus, found.sequence_length, dict(found.requested)) == (32, 4096, {"gpus": 64})
    assert found.places["gpus"] == 60
    # What a format has read itself is kept.
    own = StepLog("megatron", (), attempts=1, identity=Identity(sequence_length=77, places={"sequence_length": 5}))
    found = with_identity(own, [(0, b"  seq_length .......... 1024"), (30, b"  num_layers .......... 24")]).identity
    assert (found.sequence_length, found.layers, dict(found.places)) == (77, 24, {"sequence_length": 5, "layers": 30})
    # Where it stands.
    records = [(0, b"GSW: MODEL=m"), (20, b"  seq_length .... 8"), (60, b"using world size: 4, data"), (99, b"x")]
    found = with_identity(StepLog("megatron", (), attempts=0), records).identity
    assert dict(found.places) == {"model": 0, "sequence_length": 20, "gpus": 60}


SENTENCES = (
    "seq_length and num_layers are what counts",
    "We set the sequence length to 4096, and the global batch size to 8.",
    "Warning: precision loss in bf16: see fp16",
    "a hidden_size of 8192, tensor_model_parallel_size = 4",
    "time (ms) | num_layers: 12 | seq_length: 44",
    "Model has 24 layers; micro_batch_size=4",
    "--tensor-model-parallel-size 8 --seq-length 2048 --bf16",
    "DatasetConfig and OptimizerConfig are printed below",
    "TransformerModelArgs are known",
    "Float8 training is not active",
    "config.py: world_size .. 8",
)


@given(st.lists(st.sampled_from(SENTENCES), max_size=5), st.sampled_from(sorted(PRINTED)), st.integers(0, 12))
def test_sentences_about_settings_say_nothing(lines: list[str], format_name: str, indent: int) -> None:
    assert said(format_name, "\n".join(" " * indent + line for line in lines)) == {}
