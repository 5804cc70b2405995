"""Packed weights give the same numbers in less time, and are left alone where they would not."""

import weakref
from typing import Any

import pytest
import torch
from torch import nn

from app.engines import memory, packing
from app.engines.packing import PackedLinear

VOCABULARY, WIDTH = 3000, 512


def model(dtype: torch.dtype = torch.float32, tied: bool = False) -> Any:
    """A model whose layers are large enough to be packed."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attention_bias=True,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config).to(dtype).eval()


def scores(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return torch.as_tensor(model(torch.arange(20).unsqueeze(0)).logits)


def plain(model: Any) -> list[str]:
    return [name for name, layer in model.named_modules() if type(layer) is nn.Linear]


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed, whatever the clock says on a busy machine."""
    monkeypatch.setattr(packing, "_is_faster", lambda layers: bool(PackedLinear(layers[0])))


@pytest.mark.usefixtures("faster")
def test_a_packed_model_computes_the_same() -> None:
    llama = model()
    before = scores(llama)

    assert packing.pack(llama, cache=0)

    assert plain(llama) == []
    torch.testing.assert_close(scores(llama), before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 16, 17, 250, 256])
def test_a_packed_layer_takes_any_number_of_rows(rows: int) -> None:
    layer = nn.Linear(96, 160).requires_grad_(False)
    packed = PackedLinear(layer)
    given = torch.randn(1, rows, 96)

    torch.testing.assert_close(packed(given), layer(given), rtol=1e-4, atol=1e-5)


def test_who_looks_at_the_numbers_of_a_layer_gets_them_and_does_not_wait_for_them_again() -> None:
    layer = nn.Linear(96, 160).requires_grad_(False)
    packed = PackedLinear(layer)
    given = torch.randn(1, 3, 96)

    assert torch.equal(packed.weight, layer.weight)

    assert packed.weight is packed.weight
    torch.testing.assert_close(packed(given), layer(given), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize(("free", "left"), [(1e12, []), (1e6, ["lm_head"])])
def test_an_output_layer_that_shares_its_weights_is_packed_where_there_is_memory(
    free: float, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free", lambda: free)
    llama = model(tied=True)
    before = scores(llama)

    assert packing.pack(llama, cache=0)

    assert plain(llama) == left
    torch.testing.assert_close(scores(llama), before, rtol=1e-4, atol=1e-4)


def test_what_is_measured_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {nn.Linear: 0.1, PackedLinear: 0.2}
    monkeypatch.setattr(packing, "_seconds", lambda layers, rows: seconds[type(layers[0])])
    llama = model()
    assert not packing.pack(llama, cache=0)
    assert plain(llama)

    seconds[PackedLinear] = 0.05

    assert packing.pack(llama, cache=0)


def test_numbers_that_have_no_packed_form_are_left_as_they_are() -> None:
    llama = model(torch.float64)

    assert not packing.pack(llama, cache=0)

    assert plain(llama)
    assert scores(llama).isfinite().all()


def test_a_small_model_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_LEAST", 1e9)
    llama = model()

    assert not packing.pack(llama, cache=0)
    assert plain(llama)


@pytest.mark.usefixtures("faster")
def test_a_layer_is_gone_before_the_next_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    llama = model()
    alive = weakref.WeakSet(layer for layer in llama.modules() if type(layer) is nn.Linear)
    seen: list[int] = []

    class Counting(PackedLinear):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__(layer)
            seen.append(len(alive))

    monkeypatch.setattr(packing, "PackedLinear", Counting)
    everything = len(alive)

    packing.pack(llama, cache=0)

    assert seen == list(range(everything, 0, -1))


@pytest.mark.usefixtures("faster")
def test_a_layer_that_can_not_be_packed_goes_on_among_the_others() -> None:
    llama = model()
    llama.model.layers[0].mlp.down_proj.double()
    hooked = llama.model.layers[1].mlp.down_proj
    hooked.register_forward_hook(lambda *_: None)

    assert packing.pack(llama, cache=0)

    assert plain(llama) == ["model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"]


def test_a_torch_without_such_layers_runs_the_model_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Namespace:
        """As `torch.ops.mkldnn` where the functions were renamed."""

    monkeypatch.setattr(torch.ops, "mkldnn", Namespace())
    llama = model()

    assert not packing.pack(llama, cache=0)
    assert scores(llama).isfinite().all()


def test_prompts_of_all_lengths_leave_few_programs_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = PackedLinear(nn.Linear(32, 48).requires_grad_(False))
    seen: set[int] = set()
    compute = torch.ops.mkldnn._linear_pointwise

    def recorded(rows: torch.Tensor, *more: Any) -> Any:
        seen.add(rows.shape[-2])
        return compute(rows, *more)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", recorded)

    for rows in range(1, 257):
        packed(torch.randn(1, rows, 32))

    assert len(seen) == 16 + 15


def test_packed_is_said_only_where_something_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_is_faster", lambda layers: True)
    monkeypatch.setattr(packing, "_is_shared", lambda layer, model: True)
    monkeypatch.setattr(memory, "free", lambda: 1e6)

    assert not packing.pack(model(), cache=0)
