"""A package, because gpuhunt installs one named `tests`, which would hide a plain folder."""
