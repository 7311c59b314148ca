"""Keep the GPU busy like another user; print a line once it is."""

if __name__ == "__main__":
    import torch

    a = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    print(1, flush=True)
    while True:
        a @ a
        torch.cuda.synchronize()
