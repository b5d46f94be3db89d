"""What PyTorch says about a case: the loss and gradients of a global batch evaluated in one piece, and training on it."""

from __future__ import annotations

import torch

import export
import shards


class Reference:
    """A case's module with the weights that its export carries, the batches of a run, and PyTorch's optimizer. `stored`:
    the element type of the weights in the file; they are widened to f32."""

    def __init__(self, case, samples, global_batch, fresh=False, optimizer=None, clip=0.0, schedule=None,
                 stored="float32"):
        self.case = case
        self.samples = samples
        self.global_batch = global_batch
        self.module = export.build_module(case, fresh=fresh, dtype=stored).float()
        self.clip = clip
        self.schedule = schedule
        make = optimizer or (lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))
        self.optimizer = make(self.module.named_parameters()) if optimizer else make(self.module.parameters())

    def aliases(self) -> dict:
        """Every further name of a tied parameter, and the name under which PyTorch lists it."""
        listed = {id(parameter): name for name, parameter in self.module.named_parameters()}
        every = self.module.named_parameters(remove_duplicate=False)
        return {name: listed[id(parameter)] for name, parameter in every if listed[id(parameter)] != name}

    def batches_per_pass(self) -> int:
        return -(-len(self.samples) // self.global_batch)

    def batch(self, step: int) -> dict:
        """The batch of step 0, 1, …: samples in order, repeated; each pass ends with what is left."""
        start = (step % self.batches_per_pass()) * self.global_batch
        return self.collate(self.samples[start : start + self.global_batch])

    def collate(self, samples) -> dict:
        arrays = shards.collate(self.case.fields, samples)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def loss(self, batch) -> torch.Tensor:
        outputs = self.module(**{name: batch[name] for name in self.case.inputs})
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return self.case.loss(dict(zip(self.case.outputs, outputs)), batch)

    def gradients(self, batch, bf16=False) -> tuple:
        """Loss and gradients by name; under PyTorch's autocast with `bf16`."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = self.loss(batch)
        loss.backward()
        return loss.item(), {
            name: parameter.grad.detach().clone().numpy()
            for name, parameter in self.module.named_parameters()
            if parameter.grad is not None
        }

    def train(self, steps: int) -> list:
        """The loss of each step, before its update."""
        losses = []
        for step in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(self.batch(step))
            loss.backward()
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
            if self.schedule:
                groups = self.optimizer.param_groups
                for group in groups:
                    group.setdefault("share", group["lr"] / groups[-1]["lr"])
                for group in groups:
                    group["lr"] = self.schedule(step + 1) * group["share"]
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def mean_loss(self) -> float:
        """The mean over all counted positions of the data."""
        with torch.no_grad():
            return self.loss(self.collate(self.samples)).item()
