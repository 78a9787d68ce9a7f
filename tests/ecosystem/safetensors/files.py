"""safetensors: a state saved, loaded, opened by parts, as bytes; tied weights by `save_model`."""

import hashlib
import json

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
state = model.state_dict()
state["half"] = torch.randn(3, 4).half()
state["brain"] = torch.randn(3, 4).bfloat16()
save_file(state, "state.safetensors", metadata={"format": "pt"})
found = {"file": hashlib.sha256(open("state.safetensors", "rb").read()).hexdigest()}
found["bytes"] = hashlib.sha256(save({"a": state["0.weight"]})).hexdigest()
found["loaded"] = {
    name: [str(t.dtype), t.double().sum().item()] for name, t in load_file("state.safetensors").items()
}
found["from bytes"] = load(save({"a": state["0.weight"]}))["a"].sum().item()
with safe_open("state.safetensors", framework="pt", device="cpu") as file:
    found["names"] = sorted(file.keys())
    found["metadata"] = file.metadata()
    part = file.get_slice("0.weight")
    found["slice"] = part[2:4, :3].tolist()
    found["shape"] = part.get_shape()
    found["tensor"] = file.get_tensor("0.bias").tolist()
tied = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
tied[1].weight = tied[0].weight
try:
    save_file(tied.state_dict(), "tied.safetensors")
    found["refused"] = False
except RuntimeError as error:
    found["refused"] = "share memory" in str(error)
save_model(tied, "tied.safetensors")
other = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
other[1].weight = other[0].weight
missing, unexpected = load_model(other, "tied.safetensors")
found["tied"] = [sorted(missing), unexpected, [p.sum().item() for p in other.parameters()]]
print(json.dumps(found))
