import torch
from torch import Tensor


class Recaller(torch.nn.Module):
    def forward(
        self, observation: Tensor, masks: dict[str, Tensor], memory: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        cue = observation[:, :4]
        if "cue" in memory:
            cue = cue + memory["cue"]
        asked = observation[:, 4] > 0
        answer = torch.where(asked, cue.argmax(dim=1) + 1, torch.zeros_like(cue.argmax(dim=1)))
        return {"answer": answer}, {"cue": cue}


torch.jit.script(Recaller()).save("recaller.pt")
