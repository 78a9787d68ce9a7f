"""``torch.testing``: comparison of results, and random tensors for tests."""

from ._comparison import assert_allclose as assert_allclose
from ._comparison import assert_close as assert_close
from ._creation import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
