"""Commands for the machines that runs measure on."""
