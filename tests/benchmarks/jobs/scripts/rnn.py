# A recurrent tagger over sentences of 5 to 120 words, packed: no two steps have the same work.
import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        lengths = (5 + 115 * torch.rand(count, generator=draw) ** 2).int()
        self.words = [torch.randint(1, 2000, (int(length),), generator=draw) for length in lengths]

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words = self.words[index]
        return words, words % 12


def collate(pairs):
    words, tags = zip(*pairs, strict=True)
    lengths = torch.tensor([len(sentence) for sentence in words])
    return (
        pad_sequence(words, batch_first=True),
        pad_sequence(tags, batch_first=True, padding_value=-100),
        lengths,
    )


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(2000, 96, padding_idx=0)
        self.lstm = nn.LSTM(96, 96, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.head = nn.Linear(192, 12)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        return self.head(pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=".")
    options = parser.parse_args()
    torch.manual_seed(2)
    train = DataLoader(Sentences(2400, 1), batch_size=24, shuffle=True, collate_fn=collate)
    held_out = DataLoader(Sentences(400, 2), batch_size=50, collate_fn=collate)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    for epoch in range(options.epochs):
        model.train()
        for words, tags, lengths in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(words, lengths).flatten(0, 1), tags.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses = [
                nn.functional.cross_entropy(model(words, lengths).flatten(0, 1), tags.flatten()).item()
                for words, tags, lengths in held_out
            ]
        plateau.step(sum(losses) / len(losses))
        print(f"epoch {epoch}: held out {sum(losses) / len(losses):.4f}", flush=True)
        torch.save(model.state_dict(), options.out / "tagger.pt")


if __name__ == "__main__":
    main()
