# A generator and a discriminator, each with its own optimizer; the latter steps twice.
import torch

generator, discriminator = torch.nn.Linear(8, 64), torch.nn.Linear(64, 1)
of_generator = torch.optim.Adam(generator.parameters())
of_discriminator = torch.optim.RMSprop(discriminator.parameters())
while True:
    for _ in range(2):
        fake = generator(torch.randn(16, 8))
        of_discriminator.zero_grad()
        (discriminator(fake.detach()).mean() - discriminator(torch.randn(16, 64)).mean()).backward()
        of_discriminator.step()
    of_generator.zero_grad()
    (-discriminator(generator(torch.randn(16, 8))).mean()).backward()
    of_generator.step()
