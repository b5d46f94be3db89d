"""Recurrent networks of PyTorch: its own layers, and a loop over a cell."""

from __future__ import annotations

import torch
from torch import nn

from zoo import CLASS, Field

from .network import IDS, TEXT, Network, first_of
from .tiny import VOCABULARY

WIDTH = 32


class Tagger(nn.Module):
    """Embeds ids, mixes them by `kind`, and gives a class a position."""

    def __init__(self, kind, **settings):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = kind(WIDTH, WIDTH, batch_first=True, **settings)
        width = settings.get("proj_size") or WIDTH
        self.head = nn.Linear(width * (2 if settings.get("bidirectional") else 1), VOCABULARY)

    def forward(self, input_ids):
        return self.head(self.recurrent(self.embed(input_ids))[0])


class LastState(nn.Module):
    """The final hidden state of a recurrence, which padding would carry on."""

    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = kind(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, input_ids):
        final = self.recurrent(self.embed(input_ids))[1]
        final = final[0] if isinstance(final, tuple) else final
        return self.head(final[-1])


class Begun(nn.Module):
    """Recurrences that begin with states of their own, one of them both ways: both outputs and all final states are read."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.start = nn.Parameter(0.3 * torch.randn(1, 1, WIDTH))
        self.cells = nn.Parameter(0.3 * torch.randn(2, 1, WIDTH))
        self.head = nn.Linear(2 * WIDTH, VOCABULARY)

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        rows = hidden.new_zeros(1, hidden.shape[0], 1)
        mixed, last = self.gru(hidden, self.start + rows)
        both, (states, final) = self.lstm(mixed, (torch.cat([last, last]), self.cells + rows))
        ends = torch.tanh(torch.cat([states[0], final[1]], -1))
        return self.head(both + ends[:, None])


class Cell(nn.Module):
    """A recurrence written as a Python loop over a fixed number of steps."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.head = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.GRUCell(WIDTH, WIDTH),
            nn.Linear(WIDTH, VOCABULARY),
        )

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        state, states = torch.zeros_like(hidden[:, 0]), []
        for step in range(6):
            state = self.cell(hidden[:, step], state)
            states.append(state)
        return self.head(torch.stack(states, 1))


def networks():
    for name, kind, settings in (
        ("lstm", nn.LSTM, {}),
        ("gru", nn.GRU, {}),
        ("rnn", nn.RNN, {}),
        ("lstm_stacked", nn.LSTM, dict(num_layers=2)),
        ("lstm_bidirectional", nn.LSTM, dict(bidirectional=True)),
        ("gru_bidirectional", nn.GRU, dict(bidirectional=True)),
        ("rnn_relu", nn.RNN, dict(nonlinearity="relu")),
        ("lstm_projected", nn.LSTM, dict(proj_size=8)),
    ):
        yield Network(
            f"plain_{name}",
            "plain",
            lambda kind=kind, settings=settings: Tagger(kind, **settings),
            TEXT,
            first_of,
            quick=name == "lstm",
        )
    for name, kind in (("lstm", nn.LSTM), ("gru", nn.GRU)):
        yield Network(
            f"plain_{name}_last_state",
            "plain",
            lambda kind=kind: LastState(kind),
            {"input_ids": IDS, "labels": CLASS},
            first_of,
        )
    yield Network("plain_recurrent_begun", "plain", Begun, TEXT, first_of)
    yield Network(
        "plain_gru_cell",
        "plain",
        Cell,
        {
            "input_ids": Field(("batch", 6), "ids", VOCABULARY),
            "labels": Field(("batch", 6), "labels", VOCABULARY, -100),
        },
        first_of,
    )
