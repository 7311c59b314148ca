import csv
from datetime import date

import pytest

from tasks.planning.hardware import DEPLOYMENTS
from tasks.pricing.offers import load_offers, offer_doubts

# Rows of SkyPilot's catalogue v8 at the commits that offers.csv names. The memory is that of all GPUs.
CATALOGUE = """provider,instance,gpus,cpus,memory_gib,usd,spot_usd,region,gpu_memory_mib
cudo,ice-lake-rtx-a5000_4x32v64gb,4.0,32,64,1.4768,,ca-montreal-3,98304
cudo,sapphire-rapids-h100_1x4v8gb,1.0,4,8,1.8528,,no-kristiansand-1,81920
cudo,intel-broadwell-v100_2x16v32gb,2.0,16,32,0.54,,us-newyork-1,32768
cudo,intel-ice-lake-a100-pci_8x64v128gb,8.0,64,128,11.5488,,us-carlsbad-1,655360
lium,B200_1x,1.0,20.0,220.0,5.75,,US,183296
lium,B300_8x,8.0,224.0,1890.0,62.0,,CA,2203648
lium,RTX3090_8x,8.0,80.0,189.0,1.28,,JP,196608
lium,RTX6000-Ada_1x,1.0,32.0,126.0,0.8,,GR,49152
seeweb,ECS1GPU10,1,32,256.0,2.6,,it-fr2,144384
seeweb,ECS3GPU8,4,64,1024.0,7.56,,,327680
seeweb,ECS4GPU6,8,32,256.0,3.04,,,196608
vastai,2x-A100_SXM4-32-65536,2,,,1.49,,"Slovenia, SI, EU",81920
vastai,8x-H200-32-65536,8,,,17.88,,"France, FR, EU",1150168
vastai,1x-RTX_4060_Ti-32-65536,1,,,0.13,,"United Kingdom, GB, EU",16380
vastai,4x-H100_SXM-32-65536,4,,,8.53,,"Vietnam, VN, AS",326236
verda,1B300.30V,1.0,30.0,275.0,6.99,2.447,FIN-03,268288
verda,8B200.240V,8.0,240.0,1472.0,,13.69,FIN-03,1474560
verda,1H200.141S.44V,1.0,44.0,182.0,3.39,,FIN-02,144384
verda,4RTXPRO6000.120V,4.0,120.0,360.0,6.76,2.366,FIN-03,393216
"""
MEMORY_STEP_GIB = 0.05  # Vast's memory is rounded to a tenth


@pytest.mark.parametrize("row", [*csv.DictReader(CATALOGUE.splitlines())], ids=lambda row: row["instance"])
def test_an_offer_is_as_in_the_catalogue(row):
    of_row = (row["provider"], row["instance"])
    found = {o.purchase: o for o in load_offers(DEPLOYMENTS) if (o.provider, o.instance) == of_row}
    prices = {"on-demand": row["usd"], "spot": row["spot_usd"]}
    assert {p: o.usd_per_hour for p, o in found.items()} == {
        p: float(usd) for p, usd in prices.items() if usd
    }
    for offer in found.values():
        assert (offer.gpus, offer.region or "") == (float(row["gpus"]), row["region"])
        assert (offer.cpus or "", offer.memory_gib or "") == tuple(
            float(row[name]) if row[name] else "" for name in ("cpus", "memory_gib")
        )
        gib = float(row["gpu_memory_mib"]) / 1024 / offer.gpus
        assert offer.gpu_memory_gib == pytest.approx(gib, abs=MEMORY_STEP_GIB)


def test_prices_in_euros_are_doubtful():
    offers = load_offers(DEPLOYMENTS)
    doubted = {
        o.provider
        for o in offers
        if any("EUR" in doubt for doubt in offer_doubts(o, offers, date(2026, 11, 28)))
    }
    assert doubted == {"seeweb"}
