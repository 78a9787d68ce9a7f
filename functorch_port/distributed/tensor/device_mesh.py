"""The place where libraries look for `DeviceMesh` beside `DTensor`."""

from ..device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
