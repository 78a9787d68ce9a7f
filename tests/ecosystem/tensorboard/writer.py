"""`SummaryWriter`: scalars, histograms, images, text, an embedding and hyperparameters, read back by TensorBoard."""

import glob
import json

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
with SummaryWriter("run") as writer:
    for step in range(3):
        writer.add_scalar("loss", torch.tensor(1.0 / (step + 1)), step)
        writer.add_scalars("rates", {"a": 0.1 * step, "b": 0.2}, step)
        writer.add_histogram("weight", model.weight, step)
    writer.add_image("picture", torch.rand(3, 8, 8), 0)
    writer.add_images("pictures", torch.rand(4, 3, 8, 8), 0)
    writer.add_text("note", "a text", 0)
    writer.add_pr_curve("curve", torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.8, 0.6, 0.4]), 0)
    writer.add_embedding(torch.rand(4, 3), metadata=["a", "b", "c", "d"], tag="points")
    writer.add_hparams({"lr": 0.1, "name": "x"}, {"accuracy": 0.5}, run_name="tried")
events = EventAccumulator("run", size_guidance={"histograms": 0, "images": 0, "tensors": 0}).Reload()
tags = events.Tags()
found = {kind: sorted(tags[kind]) for kind in ("scalars", "histograms", "images", "tensors")}
found["loss"] = [event.value for event in events.Scalars("loss")]
weights = events.Histograms("weight")[-1].histogram_value
found["histogram"] = [weights.min, weights.max, weights.num, weights.sum, weights.sum_squares]
found["buckets"] = list(weights.bucket)
picture = events.Images("picture")[0]
found["picture"] = [picture.width, picture.height]
found["folders"] = sorted(path.split("/")[1] for path in glob.glob("run/*/"))
found["points"] = open("run/00000/points/tensors.tsv").read()
print(json.dumps(found))
