"""Metrics of classification, regression, text, retrieval and images: updated by batches, in a collection, reset."""

import json

import torch
import torchmetrics as tm
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.text import BLEUScore, Perplexity, WordErrorRate

torch.manual_seed(0)
found = {}
many = dict(task="multiclass", num_classes=4)
collection = tm.MetricCollection(
    {
        "accuracy": tm.Accuracy(**many, average="macro"),
        "f1": tm.F1Score(**many, average=None),
        "auroc": tm.AUROC(**many),
        "matrix": tm.ConfusionMatrix(**many),
        "calibration": tm.CalibrationError(**many),
    }
)
for _ in range(3):
    collection.update(torch.randn(16, 4).softmax(-1), torch.randint(0, 4, (16,)))
found["classes"] = {name: value.tolist() for name, value in collection.compute().items()}
curve = tm.PrecisionRecallCurve(task="binary", thresholds=5)
found["curve"] = [value.tolist() for value in curve(torch.rand(20), torch.randint(0, 2, (20,)))]
guess, true = torch.randn(30), torch.randn(30)
for metric in (
    tm.MeanSquaredError(), tm.PearsonCorrCoef(), tm.R2Score(), tm.SpearmanCorrCoef(), tm.ExplainedVariance(),
):  # fmt: skip
    metric.update(guess[:10], true[:10])
    metric.update(guess[10:], true[10:])
    found[type(metric).__name__] = metric.compute().item()
mean = tm.MeanMetric()
mean.update(torch.tensor([1.0, 2.0]), weight=torch.tensor([3.0, 1.0]))
found["mean"] = mean.compute().item()
mean.reset()
found["updated"] = mean.update_called
pictures, others = torch.rand(2, 3, 24, 24), torch.rand(2, 3, 24, 24)
found["psnr"] = PeakSignalNoiseRatio(data_range=1.0)(pictures, others).item()
found["ssim"] = StructuralSimilarityIndexMeasure(data_range=1.0)(pictures, others).item()
found["bleu"] = BLEUScore(n_gram=2)(["the cat sat on a mat"], [["a cat sat on the mat"]]).item()
found["wer"] = WordErrorRate()(["this is a text"], ["this is the text"]).item()
found["perplexity"] = Perplexity()(torch.randn(2, 5, 8), torch.randint(0, 8, (2, 5))).item()
found["retrieval"] = tm.RetrievalMRR()(
    torch.rand(6), torch.tensor([0, 1, 0, 1, 0, 0]).bool(), indexes=torch.tensor([0, 0, 0, 1, 1, 1])
).item()
found["state"] = sorted(tm.Accuracy(**many).state_dict())
print(json.dumps(found))
