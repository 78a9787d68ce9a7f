"""Models are torchvision's: the same state for a seed, the same numbers and gradients, the same names."""

from __future__ import annotations

import inspect
import os
import warnings

import numpy as np
import pytest
import torch
from real_torchvision import torchvision

import functorch_port as ft
from functorch_port.vision import models as ours
from functorch_port.vision.models import _utils

theirs = torchvision.models


def group_norm(models):
    """A normalization that `ResNet` may be given."""
    T = torch if models is theirs else ft
    return lambda channels: T.nn.GroupNorm(2, channels)


#: the size of the images and the model, small enough for each run of the tests. Where the last layers have images of
#: one pixel, statistics of few numbers make networks as ill-conditioned as 1e-7 in float64, in PyTorch too.
SMALL = {
    "basic": (48, lambda m: m.ResNet(m.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)),
    "bottleneck": (
        64,
        lambda m: m.ResNet(m.resnet.Bottleneck, [1, 1, 1, 1], 10, groups=4, width_per_group=8),
    ),
    "dilated": (
        48,
        lambda m: m.ResNet(
            m.resnet.Bottleneck, [1, 1, 2, 2], 10, True, 1, 16, [False, True, True], group_norm(m)
        ),
    ),
    "squeezenet": (48, lambda m: m.squeezenet1_1(num_classes=10)),
    "mobilenet_v2": (
        16,
        lambda m: m.MobileNetV2(10, 0.5, [[1, 16, 1, 1], [6, 24, 2, 2]]),
    ),
    "mobilenet_v3": (
        32,
        lambda m: m.MobileNetV3(
            [
                m.mobilenetv3.InvertedResidualConfig(8, 3, 16, 8, True, "RE", 1, 1, 1.0),
                m.mobilenetv3.InvertedResidualConfig(8, 5, 24, 16, True, "HS", 2, 2, 1.0),
            ],
            last_channel=32,
            num_classes=10,
        ),
    ),
    "densenet": (64, lambda m: m.DenseNet(8, (1, 2, 1, 1), 16, drop_rate=0.1, num_classes=10)),
    "efficientnet": (
        32,
        lambda m: m.EfficientNet(
            [
                m.efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1),
                m.efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 2),
                m.efficientnet.MBConvConfig(4, 5, 1, 16, 24, 1, width_mult=1.0, depth_mult=1.2),
            ],
            dropout=0.2,
            num_classes=10,
        ),
    ),
    "convnext": (
        16,
        lambda m: m.ConvNeXt(
            [m.convnext.CNBlockConfig(8, 16, 1), m.convnext.CNBlockConfig(16, None, 2)],
            0.4,
            0.5,
            num_classes=10,
        ),
    ),
    "swin": (
        14,
        lambda m: m.SwinTransformer(
            [2, 2], 8, [2, 2], [2, 4], [3, 3], dropout=0.1, attention_dropout=0.1, num_classes=10
        ),
    ),
}
#: models whose state is compared
FULL = {
    "resnet18": {"zero_init_residual": True},
    "resnet50": {"replace_stride_with_dilation": [False, True, True]},
    "resnext50_32x4d": {},
    "squeezenet1_0": {},
    "mobilenet_v2": {"width_mult": 0.75},
    "mobilenet_v3_small": {},
    "mobilenet_v3_large": {"width_mult": 0.5, "reduced_tail": True, "dilated": True},
    "densenet121": {},
    "efficientnet_b3": {},
    "efficientnet_v2_s": {},
    "convnext_tiny": {},
    "swin_t": {},
}
#: models as they are
LARGE = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
    "resnet34", "resnext50_32x4d", "mobilenet_v3_large", "resnet101", "resnet152", "wide_resnet50_2", "alexnet",
    "vgg11", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vit_b_16", "vit_b_32", "vit_l_16",
    "densenet121", "efficientnet_v2_s", "convnext_tiny", "swin_t",
)  # fmt: skip


WHOLE = pytest.mark.skipif(
    os.environ.get("WHOLE_MODELS") != "1", reason="WHOLE_MODELS=1 compares the large models too"
)


def pair(make):
    """A model of theirs and of ours, made from one seed."""
    made = []
    for T, models in ((torch, theirs), (ft, ours)):
        T.manual_seed(3)
        made.append(make(models))
    return made


def same_state(a, b):
    assert repr(a) == repr(b)
    mine = b.state_dict()
    assert list(a.state_dict()) == list(mine)
    assert [n for n, _ in a.named_parameters()] == [n for n, _ in b.named_parameters()]
    for key, value in a.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), np.asarray(mine[key]), err_msg=key)


def same_numbers(a, b, size, train=True, tol=1e-10):
    """Outputs in evaluation and in training, buffers and gradients, in float64."""
    a, b = a.double(), b.double()
    x = np.random.default_rng(0).uniform(size=(3, 3, size, size))
    with torch.no_grad(), ft.no_grad():
        np.testing.assert_allclose(np.asarray(b.eval()(ft.tensor(x))), a.eval()(torch.tensor(x)), tol, tol)
    if not train:
        return
    a.train(), b.train()
    torch.manual_seed(5), ft.manual_seed(5)
    at, bt = torch.tensor(x, requires_grad=True), ft.tensor(x, requires_grad=True)
    out, mine = a(at), b(bt)
    np.testing.assert_allclose(np.asarray(mine.detach()), out.detach(), tol, tol)
    out.sin().sum().backward(), mine.sin().sum().backward()
    grads = {"input": (at.grad, bt.grad)}
    grads |= {n: (p.grad, q.grad) for (n, p), q in zip(a.named_parameters(), b.parameters(), strict=True)}
    for n, (p, q) in grads.items():
        np.testing.assert_allclose(np.asarray(q), p, 1e-8, tol * max(1, p.abs().max().item()), err_msg=n)
    for (n, p), q in zip(a.named_buffers(), b.buffers(), strict=True):
        np.testing.assert_allclose(np.asarray(q), p, tol, tol, err_msg=n)


@pytest.mark.parametrize("name", SMALL)
def test_model_trains_as_torchvisions(name):
    size, make = SMALL[name]
    a, b = pair(make)
    same_state(a, b)
    # PyTorch's hardsigmoid has 1/6 rounded to float32, in float64 too
    same_numbers(a, b, size, tol=1e-7 if name.startswith("mobilenet_v3") else 1e-10)


@pytest.mark.parametrize("name", FULL)
def test_model_begins_as_torchvisions(name):
    same_state(*pair(lambda m: getattr(m, name)(num_classes=10, **FULL[name])))


@WHOLE
@pytest.mark.parametrize("name", LARGE)
def test_large_model_is_torchvisions(name):
    a, b = pair(lambda m: getattr(m, name)(num_classes=10))
    same_state(a, b)
    same_numbers(
        a, b, 224 if name.startswith("vit") else 64, train=name in ("vit_b_32", "vgg11", "alexnet", "swin_t")
    )


def vits(module, **more):
    return module.VisionTransformer(
        image_size=32,
        patch_size=8,
        num_layers=2,
        num_heads=4,
        hidden_dim=32,
        mlp_dim=64,
        num_classes=10,
        **more,
    )


@pytest.mark.parametrize(
    "more", [{}, {"representation_size": 16, "dropout": 0.2, "attention_dropout": 0.1}, {"conv_stem": True}]
)
def test_narrow_transformer_is_torchvisions(more):
    made = []
    for T, models in ((torch, theirs), (ft, ours)):
        T.manual_seed(2)
        config = models.vision_transformer.ConvStemConfig
        stem = {"conv_stem_configs": [config(8, 3, 2), config(16, 3, 4)]} if "conv_stem" in more else more
        made.append(vits(models, **stem))
    a, b = made
    same_state(a, b)
    for net in (a, b):
        with (torch if net is a else ft).no_grad():
            net.heads.head.weight.fill_(0.1)  # it begins as zeros, which hide all else
    same_numbers(a, b, 32)
    with pytest.raises(AssertionError, match="Wrong image height! Expected 32 but got 16!"):
        b(ft.zeros(1, 3, 16, 32))
    with pytest.raises(AssertionError, match="Input shape indivisible by patch size!"):
        ours.VisionTransformer(30, 8, 1, 1, 8, 8)


def test_embeddings_of_another_size():
    a, b = vits(theirs), vits(ours)
    b.load_state_dict({k: ft.tensor(v.numpy()) for k, v in a.state_dict().items()})
    want = theirs.vision_transformer.interpolate_embeddings(48, 8, a.state_dict())
    got = ours.vision_transformer.interpolate_embeddings(48, 8, b.state_dict())
    assert list(want) == list(got)
    name = "encoder.pos_embedding"
    np.testing.assert_allclose(np.asarray(got[name]), want[name], 1e-5, 1e-6)
    left = ours.vision_transformer.interpolate_embeddings(64, 8, b.state_dict(), reset_heads=True)
    assert not [key for key in left if key.startswith("heads")]


def test_states_with_the_old_names_of_layers_can_be_loaded():
    net = vits(ours)
    state = net.state_dict()
    for key in [k for k in state if ".mlp." in k]:
        state[key.replace("mlp.0", "mlp.linear_1").replace("mlp.3", "mlp.linear_2")] = state.pop(key)
    for entry in state._metadata.values():
        entry.pop("version", None)
    assert str(vits(ours).load_state_dict(state)) == "<All keys matched successfully>"


def test_narrow_vgg_is_torchvisions():
    cfg = [8, "M", 16, 16, "M"]
    for norm in (False, True):
        torch.manual_seed(1), ft.manual_seed(1)
        a, b = theirs.vgg.make_layers(cfg, norm), ours.vgg.make_layers(cfg, norm)
        for module in a.modules():  # as `VGG` draws them
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                torch.nn.init.constant_(module.bias, 0)
        for module in b.modules():
            ours.vgg._draw(module)
        same_state(a, b)
        same_numbers(a, b, 16)


def losses_of(net, x, compiled, steps=3):
    """Losses of a few steps of training."""
    opt = ft.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    y = ft.arange(len(x))

    def step():
        opt.zero_grad()
        loss = ft.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    run = ft.compile(step) if compiled else step
    return [run().item() for _ in range(steps)]


@pytest.mark.parametrize(
    "make",
    [lambda m: m.MobileNetV2(10, 0.5, [[1, 16, 1, 1], [6, 24, 2, 2]], dropout=0.0), vits],
    ids=["convolutions", "attention"],
)
def test_training_compiled_gives_the_numbers_of_eager(make):
    found = []
    for compiled in (False, True):
        ft.manual_seed(0)
        net = make(ours).double()
        found.append(losses_of(net, ft.rand(4, 3, 32, 32, dtype=ft.float64), compiled))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8)
    assert len({*found[0]}) == 3


@WHOLE
@pytest.mark.parametrize(
    "name, size, dtype, tol", [("resnet18", 64, ft.float64, 1e-8), ("vit_b_16", 224, ft.float32, 1e-4)]
)
def test_large_model_trains_compiled_as_eagerly(name, size, dtype, tol):
    found = []
    for compiled in (False, True):
        ft.manual_seed(0)
        net = getattr(ours, name)(num_classes=10).to(dtype)
        found.append(losses_of(net, ft.rand(4, 3, size, size, dtype=dtype), compiled, steps=2))
    np.testing.assert_allclose(found[1], found[0], rtol=tol)


# weights


ENUMS = sorted({e.__name__ for n in ours.list_models() for e in [ours.get_model_weights(n)]})


def test_weights_have_torchvisions_facts():
    for name in ENUMS:
        want, got = getattr(theirs, name), getattr(ours, name)
        assert list(want.__members__) == list(got.__members__)
        for key, member in want.__members__.items():
            mine = got[key]
            assert (repr(mine), str(mine), mine.name, mine.url) == (
                repr(member),
                str(member),
                member.name,
                member.url,
            )
            facts = {k: v for k, v in member.meta.items() if k != "_docs"}
            assert {k: str(v) for k, v in mine.meta.items()} == {
                k: str(v) for k, v in facts.items()
            }  # some are NaN
            options = {k: getattr(v, "value", v) for k, v in member.transforms.keywords.items()}
            assert mine.transforms.keywords == options
    assert ours.ResNet18_Weights.DEFAULT is ours.ResNet18_Weights.IMAGENET1K_V1
    assert ours.ResNet50_Weights.IMAGENET1K_V1.value != ours.ResNet50_Weights.IMAGENET1K_V2.value


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A folder of downloads, where there is no network."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def unreachable(url):
        raise ft.hub.URLError("no network")

    monkeypatch.setattr(ft.hub.urllib.request, "urlopen", unreachable)
    return tmp_path / "hub" / "checkpoints"


def test_weights_are_loaded_from_the_cache_and_errors_say_where_to_put_them(cached):
    net = ours.squeezenet1_1()
    cached.mkdir(parents=True)
    torch.save(
        {k: torch.tensor(np.asarray(v)) for k, v in net.state_dict().items()},
        cached / "squeezenet1_1-b8a52dc0.pth",
    )
    for weights in (ours.SqueezeNet1_1_Weights.DEFAULT, "DEFAULT", "SqueezeNet1_1_Weights.IMAGENET1K_V1"):
        again = ours.squeezenet1_1(weights=weights)
        for key, value in net.state_dict().items():
            assert ft.equal(again.state_dict()[key], value)
    with pytest.raises(ft.hub.URLError, match="copy the file to .*squeezenet1_0-b66bff10.pth"):
        ours.squeezenet1_0(weights="DEFAULT")


CALLS = [
    lambda m: m.squeezenet1_0(pretrained=False), lambda m: m.squeezenet1_0(pretrained=True),
    lambda m: m.squeezenet1_0(True), lambda m: m.squeezenet1_0(weights=True), lambda m: m.squeezenet1_0(None),
    lambda m: m.squeezenet1_0(False, False), lambda m: m.squeezenet1_0(weights="NOPE"),
    lambda m: m.squeezenet1_0(weights=m.ResNet18_Weights.DEFAULT), lambda m: m.squeezenet1_0(weights=3),
    lambda m: m.squeezenet1_0(weights="DEFAULT", num_classes=10), lambda m: m.resnet50(pretrained=True),
    lambda m: m.squeezenet1_0(weights=None, pretrained=True), lambda m: m.vit_h_14(pretrained=True),
    lambda m: m.vit_b_16(weights="IMAGENET1K_SWAG_E2E_V1", image_size=224),
    lambda m: m.resnext50_32x4d(groups=2), lambda m: m.get_model("nonet"),
    lambda m: m.get_model("SqueezeNet1_1", num_classes=3), lambda m: m.get_weight("ResNet50_Weights.X"),
    lambda m: m.get_weight("ResNet50_Weights.IMAGENET1K_V2"), lambda m: m.get_weight("Foo.X"),
    lambda m: m.get_weight("Foo"), lambda m: m.get_model_weights("zz"), lambda m: m.get_model_weights(lambda x: x),
    lambda m: m.get_model_weights("resnet50"), lambda m: m.get_model_weights(m.vgg16),
    lambda m: m.resnet.BasicBlock(8, 8, groups=2), lambda m: m.resnet.BasicBlock(8, 8, dilation=2),
    lambda m: m.resnet18(replace_stride_with_dilation=[True]), lambda m: m.SqueezeNet("2_0"),
    lambda m: m.MobileNetV2(inverted_residual_setting=[]), lambda m: m.MobileNetV3([], 8),
    lambda m: m.MobileNetV3([1], 8), lambda m: m.mobilenetv2.InvertedResidual(8, 8, 3, 1),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(CALLS)))
def test_arguments_are_taken_and_refused_as_in_torchvision(i, monkeypatch):
    class Loading(Exception):
        """The weights would be loaded."""

    def load(url, **kwargs):
        raise Loading(url)

    monkeypatch.setattr(theirs._api, "load_state_dict_from_url", load)
    monkeypatch.setattr(ours._api.hub, "load_state_dict_from_url", load)

    def outcome(models):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = repr(CALLS[i](models))[:50]
            except Exception as error:
                result = type(error).__name__, str(error).replace("ReLU.", "")
        return result, [str(w.message) for w in caught]

    assert outcome(ours) == outcome(theirs)


def test_lists_of_models_are_part_of_torchvisions():
    want = theirs.list_models(module=theirs)
    assert set(ours.list_models()) <= set(want) and ours.list_models(ours) == ours.list_models()
    for given in ({"include": "vgg*"}, {"include": "res*", "exclude": ["*x*"]}, {"exclude": "*"}):
        assert ours.list_models(**given) == [
            n for n in theirs.list_models(**given, module=theirs) if n in ours.list_models()
        ]
    for name in ours.list_models():
        fn = ours.get_model_builder(name)
        assert fn is getattr(ours, name) and fn.__name__ == name and "Args:" in fn.__doc__
        assert list(inspect.signature(fn).parameters) == ["weights", "progress", "kwargs"]
        assert fn.__module__.removeprefix("functorch_port.vision") == getattr(theirs, name).__module__[11:]


def test_what_users_register_is_found():
    @ours._api.register_model("mine_own")
    def mine(weights: ours._api.WeightsEnum | None = None):
        return "made"

    assert ours.get_model("mine_own") == "made" and "mine_own" in ours.list_models()
    assert ours.get_model_weights(mine) is ours.WeightsEnum
    with pytest.raises(ValueError, match="already registered under the name 'mine_own'"):
        ours._api.register_model("mine_own")(mine)
    del ours._api.BUILTIN_MODELS["mine_own"]


def test_intermediate_layers():
    a, b = pair(lambda m: m.ResNet(m.resnet.BasicBlock, [1, 1, 1, 1], 10))
    layers = {"layer1": "low", "layer3": "high"}
    a, b = theirs._utils.IntermediateLayerGetter(a, layers), _utils.IntermediateLayerGetter(b, layers)
    assert repr(a) == repr(b)
    x = np.random.default_rng(0).uniform(size=(1, 3, 32, 32)).astype(np.float32)
    want, got = a.eval()(torch.tensor(x)), b.eval()(ft.tensor(x))
    assert list(want) == list(got) == ["low", "high"]
    for key in want:
        np.testing.assert_allclose(np.asarray(got[key].detach()), want[key].detach(), 1e-4, 1e-5)
    with pytest.raises(ValueError, match="return_layers are not present in model"):
        _utils.IntermediateLayerGetter(b, {"layer9": "x"})
    for value in (8.0, 11.9, 12, 100.3, 3):
        assert _utils._make_divisible(value, 8) == theirs._utils._make_divisible(value, 8)


def test_the_preset_is_torchvisions():
    image = np.random.default_rng(0).integers(0, 256, (3, 40, 60), dtype=np.uint8)
    for enum in ("ResNet18_Weights", "ViT_B_16_Weights"):
        want = list(getattr(theirs, enum))[-1].transforms(crop_size=16, resize_size=20)
        got = list(getattr(ours, enum))[-1].transforms(crop_size=16, resize_size=20)
        assert repr(want) == repr(got)
        np.testing.assert_allclose(np.asarray(got(ft.tensor(image))), want(torch.tensor(image)), 1e-5, 1e-5)
