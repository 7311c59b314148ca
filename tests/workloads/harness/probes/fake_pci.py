"""Devices of a PCI bus, as Linux lists them in /sys/bus/pci/devices."""


def pci_device(root, address, vendor="0x10de", kind="0x030200", driver="nvidia"):
    """Put a device below `root`; by default without a driver."""
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")
    if driver:
        owner = root / "sys/bus/pci/drivers" / driver
        owner.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(owner)
