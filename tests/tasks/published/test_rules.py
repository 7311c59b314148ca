import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.published.read import read_tables
from tasks.published.review import review
from tasks.published.sizes import flops, more_work, read_sizes
from tasks.published.table import TableRow


def judged(text, known=None, machine=None):
    return [flaw for table in read_tables(text, "f") for flaw in review(table, machine, known).findings]


def accused(text, known=None, machine=None):
    return {flaw.rule: flaw.text for flaw in judged(text, known, machine) if not flaw.doubt}


def asked(text):
    return {flaw.rule: flaw.text for flaw in judged(text) if flaw.doubt}


# A right table, what of it is changed to what, and words of the finding that this must give.
PAIRS = {
    "speedup": ("op;cpu (s);gpu (s);speedup\na;4.00;2.00;2.0\nb;9.00;3.00;3.0\nc;8.00;2.00;4.0\nd;5.00;1.00;5.0", "3.0\n", "3.6\n", "b has 3.6 in speedup, but cpu (s) over gpu (s) gives 2.99–3.01"),
    "speedup among exact ones": ("op;cpu (s);gpu (s);speedup\na;4.000;2.000;2.00\nb;9.000;3.000;3.00\nc;8.000;2.000;4.00\nd;5.000;1.000;5.00\ne;7.000;2.000;3.50\nf;6.141;3.000;2.05", "2.05", "2.00", "f has 2.00 in speedup, but cpu (s) over gpu (s) gives 2.05–2.05"),
    "speedup of one row": ("op;cpu (s);gpu (s);speedup\na;4.00;2.00;2.0", ";2.0", ";2.9", "a has a speedup that no two of the numbers give"),
    "speedup in percent": ("op;old (s);new (s);Speedup (%)\na;4.00;2.00;100\nb;9.00;3.00;200\nc;8.00;2.00;300\nd;5.00;1.00;400", "200", "270", "b has 270 in Speedup (%)"),
    "change": ("op;old (ms);new (ms);Change\na;40.0;44.0;+10.0%\nb;90.0;81.0;-10.0%\nc;80.0;60.0;-25.0%\nd;50.0;55.0;+10.0%", "-25.0%", "+25.0%", "c has +25.0% in Change"),
    "relative to a row": ("lib;ms;relative\na;2.00;1.00\nb;5.00;2.50\nc;9.00;4.50\nd;3.10;1.55", "4.50", "5.40", "c has 5.40 in relative"),
    "efficiency": ("GPUs;images/s;efficiency\n1;100;100%\n2;190;95%\n4;360;90%\n8;640;80%", "90%", "80%", "GPUs=4 has 80% in efficiency"),
    "rate beside a time": ("batch;latency (ms);images/s\n1;5.00;200\n2;6.00;333\n4;8.00;500\n8;13.0;615", "500", "5000", "batch=4 has 5000 in images/s, which with its time is 10.0 times the value"),
    "unit of a header": ("batch;latency (ms);images/s\n1;5.00;200\n2;6.00;333\n4;8.00;500\n8;13.0;615", "(ms)", "(s)", "images/s times latency (s) is a thousand times the batch"),
    "rate of another run": ("op;batch;step (ms);images/s\na;32;100.0;320", "320", "733", "images/s times step (ms) is 2.29"),
    "percentiles": ("op;p50 (ms);p99 (ms)\na;5.0;9.0\nb;6.0;8.0", "5.0;9.0", "9.0;5.0", "a has 9.0 in p50 (ms), above 5.0 in p99 (ms)"),
    "minimum": ("op;mean (ms);min (ms);max (ms)\na;5.0 ± 0.3;4.5;6.0", "4.5", "5.5", "a has 5.5 in min (ms), above 5.0 ± 0.3 in mean (ms)"),
    "copied row": ("op;cpu (s);gpu (s)\nx n=10;0.29;0.16\nx n=20;0.54;0.24", "0.54;0.24", "0.29;0.16", "have the same figures in every column (0.29, 0.16): one is a copy"),
    "copied row of a column of sizes": ("Kernel;CPU (ms);GPU (ms)\n7×7;78.4;1.8\n9×9;110.2;2.4", "110.2;2.4", "78.4;1.8", "7×7 and 9×9 have the same figures in every column (78.4, 1.8)"),
    "copied number": ("op;cpu (s)\nx n=10;4.9876\nx n=20;9.1234\nx n=40;17.4321", "9.1234", "4.9876", "x n=10 and x n=20 have 4.9876 in cpu (s) for different work"),
    "copied column": ("op;cpu (s);gpu (s)\na;1.234;0.345\nb;2.345;0.456\nc;3.456;0.567\nd;4.567;0.678", "0.345\nb;2.345;0.456\nc;3.456;0.567\nd;4.567;0.678", "1.234\nb;2.345;2.345\nc;3.456;3.456\nd;4.567;4.567", "cpu (s) and gpu (s) have the same figures in every row"),
    "devices and times": ("GPUs;Time (s)\n1;100.0\n2;52.0\n4;28.0", "28.0", "9.3", "GPUs=4 in Time (s) has 10.8 times the speed of GPUs=1 with 4 times its devices: 269 % scaling"),
    "devices and rates": ("Nodes;images/s\n1;100\n4;390", "390", "560", "140 % scaling"),
    "devices in names": ("setup;images/s\n1 GPU;100\n4 GPUs;390", "390", "560", "140 % scaling"),
    "columns of devices": ("model;1 GPU;2 GPUs;4 GPUs\na;100 ms;52 ms;28 ms", "28 ms", "9.3 ms", "a: 4 GPUs has 10.8 times the speed of 1 GPU"),
    "stated efficiency": ("GPUs;Speedup;Efficiency\n1;1.0;100%\n2;1.9;95%\n4;3.6;90%", "90%", "139%", "GPUs=4 has 139% in Efficiency, above linear scaling"),
    "share of a peak": ("op;% of peak\na;45\nb;102", "102", "107", "b has 107 in % of peak, more than the whole"),
    "utilisation": ("op;MFU (%)\na;45\nb;55", "55", "155", "b has 155 in MFU (%), more than the whole"),
    "a slip among columns": ("op;a (ms);b (ms)\np;10.0;20.0\nq;12.0;25.0\nr;14.0;27.0\ns;9.0;19.0", "27.0", "0.027", "r has 0.027 in b (ms), about a thousand times off"),
    "a slip among sizes": ("n;time (s)\n1000;0.011\n2000;0.08\n4000;0.62\n8000;4.9", "0.08", "80", "n=2000 has 80 in time (s), about a thousand times off"),
    "negative": ("op;t (s);u (s)\na;1.0;2.0\nb;2.0;3.0", "b;2.0", "b;-2.0", "b has -2.0 in t (s), which is no time"),
    "total below a row": ("op;t (s)\na;5.0\nb;7.0\nTotal;12.0", "12.0", "6.0", "Total is 6.0 in t (s), less than one of its rows"),
    "total of one column": ("op;t (s);u (s)\na;5.00;1.00\nb;7.00;2.00\nTotal;12.00;3.00", "3.00", "5.00", "are in no row"),
    "average": ("op;t (s)\na;5.0\nb;7.0\nAverage;6.0", "6.0", "8.0", "Average is 8.0 in t (s), beyond every row"),
    "sum of one column": ("op;t (s);u (s)\na;5.00;1.00\nb;7.00;2.00\nSum;12.00;3.00", "12.00", "10.00", "20 % of 10.00 in t (s) of Sum are in its rows and not in it"),
    "parts": ("op;load (s);run (s);total (s)\na;1.00;2.00;3.00\nb;1.50;4.00;5.50\nc;2.00;6.00;8.00\nd;1.00;5.00;6.00", "8.00", "9.00", "c has 9.00 in total (s), but its parts add up to another value"),
    "peak of a rate": ("gpu;TFLOP/s\nA100;259\nH100;700", "700", "2932", "H100 would run at 2930 TFLOP/s or more in TFLOP/s"),
    "peak of a GPU without fp8": ("gpu;TFLOP/s\nA10G;65", "65", "120", "A10G would run at 120 TFLOP/s or more in TFLOP/s, above the peak of A10G in fp16, its highest, 70 TFLOP/s"),
    "peak of the faster precision": ("gpu;TFLOPS (FP16 in, FP32 acc)\nA100;259", "259", "359", "above the peak of A100 in fp16, 312 TFLOP/s"),
    "peak of a bandwidth": ("gpu;GB/s\nA100;1800\nH100;3000", "1800", "10737", "A100 would run at 10700 GB/s or more"),
    "cores": ("Instance;vCPUs;Memory\nr5.4xlarge;16;128 GiB\ng5.8xlarge;32;128 GiB", ";16;", ";32;", "r5.4xlarge has 16 vCPUs, but the table states 32 vCPUs"),
    "cores beside GPUs": ("Instance;GPU;vCPUs\ng5.2xlarge;1x A10G;8\ng5.12xlarge;4x A10G;48", "48", "96", "g5.12xlarge has 48 vCPUs, but the table states 96 vCPUs"),
    "cores, turned": ("| | CPU | GPU |\n|---|---|---|\n| Instance | r5.4xlarge | g5.8xlarge |\n| CPU | 16 cores | 32 cores |", "16 cores", "32 cores", "r5.4xlarge has 16 vCPUs, but the table states 32 cores"),
    "memory": ("type;Memory (GiB);time (s)\nc5.2xlarge;16;5.0\nm5.2xlarge;32;4.0", "16", "64", "c5.2xlarge has 16 GiB, but the table states 64 GiB"),
    "spot": ("instance;On-demand $/h;Spot $/h\nm5.2xlarge;0.384;0.188", "0.188", "0.500", "the spot price, 0.5 USD/h, is above the on-demand price, 0.384"),
    "spot by zone": ("instance;where;terms;$/h\nm5.2xlarge;us-east-1;on-demand;0.384\nm5.2xlarge;eu-west-1;on-demand;0.428\nm5.2xlarge;us-east-1b;spot;0.188\nm5.2xlarge;eu-west-1a;spot;0.201", "0.188", "0.391", "the spot price, 0.391 USD/h, is above the on-demand price, 0.384"),
    "placeholder": ("instance;Price ($/h)\nm5.2xlarge;0.384\ng5.xlarge;1.006", "1.006", "700", "700 USD/h"),
    "price of another magnitude": ("instance;Price ($/h)\nm5.2xlarge;0.384\ng5.xlarge;1.006", "1.006", "10.06", "10.06 USD/h is 10 times the on-demand price on file, 1.006"),
    "price of several": ("what;Price ($/h)\n4x p4d.24xlarge;131\n8x p4d.24xlarge;262", "262", "2620", "2620 USD/h here is 20 times the 131 of 4x p4d.24xlarge"),
    "more GPUs for less": ("instance;GPUs;Price ($/h)\ng9.xlarge;1;1.00\ng9.48xlarge;8;16.0", "16.0", "0.50", "g9.48xlarge with 8 GPUs costs 0.50, g9.xlarge with 1 costs 1.00"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_each_mistake_is_named_and_the_right_table_is_not(name, known):
    right, part, wrong, words = PAIRS[name]
    assert right.count(part) >= 1
    assert accused(right, known) == {}
    found = accused(right.replace(part, wrong, 1), known)
    assert words in " / ".join(found.values()), found


RIGHT = {
    "peak": "gpu;TFLOPS\nA100;259\nL4;101",
    "FP8 above the peak of fp16": "gpu;precision;TFLOPS\nH100;fp8;1400",
    "eight of them": "gpu;TFLOPS\n8x H100;5600",
    "model size": "model;GFLOPs;ms\nresnet18;1.8;2.3\nresnet50;4.1;5.1",
    "machines": "N;time (s)\n1;100\n2;52\n4;28",
    "epochs by batch": "batch;epoch time (s)\n32;90\n64;50\n128;30",
    "batch 1 is as slow as batch 2": "batch;latency (ms)\n1;6.31\n2;6.12\n4;7.0",
    "batch per GPU": "GPUs;batch / GPU;step (ms);images/s\n2;32;100.0;640\n4;32;101.0;1267\n8;32;104.0;2461",
    "repeats": "run;time (s)\n1;1.2345\n2;1.2345\n3;1.2346",
    "speedups of unrounded times": "op;a (s);b (s);speedup\nx;4.13;1.02;4.05\ny;6.24;1.01;6.18\nz;11.31;1.03;10.98\nu;5.02;1.00;5.02\nv;7.07;1.01;7.10\nw;2.05;1.01;2.06",
    "a speedup beside two percentiles": "op;p50 (ms);p99 (ms);speedup\na;1.0;2.0;3.0\nb;1.0;2.0;3.0",
    "the best of several": "op;a (ms);b (ms);c (ms);Max speedup\np;4.92;2.28;2.23;2.21\nq;7.74;4.19;-;1.85\nr;8.06;2.78;-;2.90\ns;3.40;1.30;-;2.62\nt;1.63;0.742;-;2.20\nu;2.19;1.48;1.57;1.48",
    "rates that a program scaled": "engine;en;ru\na;30.1 GB/s;31.2 GB/s\nb;24.9 GB/s;23.3 GB/s\nc;7.1 GB/s;6.2 GB/s\nd;8.9 GB/s;2.0 MB/s\ne;11.0 GB/s;9.1 GB/s",
    "whole speedups": "op;a (s);b (s);speedup\nx;4.1;1.0;4x\ny;6.2;1.0;6x\nz;11.3;1.0;11x",
    "of unrounded times": "op;a (s);b (s);speedup\nx;0.4;0.1;3.62\ny;0.9;0.2;4.31\nz;1.1;0.3;3.71",
    "missing": "op;a (s);b (s);speedup\nx;4.0;OOM;nan\ny;6.0;2.0;3.0\nz;-;1.0;-",
    "cold beside warm": "op;cold (s);warm (s)\nx;4.012;0.511\ny;6.034;0.722\nz;1.250;0.301",
    "overlapped stages": "stage;time (s)\nload;5.0\ncompute;7.0\nTotal;8.0",
    "new over old": "op;old (s);new (s);ratio\na;1.0;2.0;2.00\nb;2.0;5.0;2.50\nc;2.0;3.0;1.50",
    "a little above linear": "GPUs;images/s\n1;100\n8;830",
    "compression": "codec;Compression;Decompress.;Ratio\nx;30.5 MB/s;219 MB/s;3.459\ny;68.3 MB/s;430 MB/s;3.435",
    "requests at once": "Concurrency;p50 latency (ms);inferences/s\n1;5.00;200\n2;6.00;333\n4;8.00;500",
    "results by instance": "instance;cores;time (s)\nr5.4xlarge;8;5.0\ng5.8xlarge;1;2.0",
    "a baseline in each group": "op;Mean (ms);Ratio\nTime50;50.1;1.00\nTime100;100.2;2.00\nTime550;549.0;1.00\nTime600;598.4;1.09",
    "a median filter": "op;CPU (s);GPU (s)\nGaussian Blur;0.090;0.040\nSobel;0.120;0.050\nMedian Filter;2.400;0.300",
    "a median filter of a size": "op;CPU (ms);GPU (ms)\nSobel;1.20;0.50\nBox (5×5);1.10;0.40\nMedian (5×5);24.00;3.00",
    "a transform": "op;CPU (s)\nBlur;0.090\nMean Pooling;0.700\nGeometric Transform;2.400",
    "a sum": "op;cpu (ms)\nadd;1.00\nmul;1.10\nsum;0.50",
    "a sum among others": "op;cpu (ms)\nsum;0.50\nadd;1.00\nmul;1.10",
    "reductions": "op;pandas (ms);polars (ms)\nmean;4.18;0.39\nmedian;10.23;0.81\nsum;3.91;0.36",
    "an average of more than is printed": "name;old (ms);new (ms);vs base\na;4.12;4.03;-2.2%\nb;9.83;9.83;~\nc;8.15;7.26;-10.9%\ngeomean;6.91;6.85;-0.9%",
    "averages of groups": "op;t (s)\na;5.0\nb;7.0\nAverage;6.0\nc;50.0\nd;70.0\nAverage;60.0",
    "a step that waits for its launches": "batch;p50 (ms);p99 (ms)\n1;5.0;7.1\n2;5.0;7.1\n4;5.2;7.5",
    "wall and CPU time": "Benchmark;Time;CPU;Iterations\nBM_a;782 us;782 us;923\nBM_b;422 us;422 us;1558\nBM_c;103 us;103 us;6790",
    "two precisions": "gpu;FP32/TF32 TFLOPS\nA100;130",
    "a machine and its GPUs": "type;price ($/h)\n2x p5.48xlarge (8x H100);196.6\n1x p5.48xlarge (8x H100);98.3",
    "several machines for their price": "Cluster;$/h\n1x p4d.24xlarge;32.77\n8x p4d.24xlarge;262.16",
    "several machines for the price of each": "Cluster;$/h\n1x p4d.24xlarge;32.77\n8x p4d.24xlarge;32.77",
    "cards to buy": "GPU;Price (USD);Images/s\nRTX 3090;1499;900\nA100 80GB;13287;1400",
    "cards to buy, in Markdown": "| GPU | Price | Images/s |\n|---|---|---|\n| RTX 3090 | $1,499 | 900 |\n| A100 80GB | $13,287 | 1400 |",
    "time that was lost": "op;Time saved (s)\na;1.2\nb;-0.4",
    "spot in a dearer region": "instance;where;terms;$/h\nm5.2xlarge;us-east-1;on-demand;0.384\nm5.2xlarge;sa-east-1a;spot;0.391",
    "a list of machines": "Place;Machine;time (s)\n1;AWS c5.4xlarge;0.41\n2;AMD Ryzen 9 with 24 cores;0.43\n3;Xeon with 57 cores;0.44",
    "cores of several": "Instances;vCPUs;time (s)\n2x g5.2xlarge;16;5.0",
    "seven of sixteen cores": "instance;Memory used (GB);time (s)\nc5.2xlarge;17;5.0",
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_table_that_can_be_true_is_never_accused(name, known):
    assert accused(RIGHT[name], known) == {}


def test_prices_to_buy_a_card_are_named_as_not_judged(known):
    cards = RIGHT["cards to buy"]
    assert accused(cards.replace("USD", "$/h"), known)
    (table,) = read_tables(cards, "f")
    assert "'Price (USD)'" in " ".join(review(table).notes)


def test_an_unlikely_number_is_a_question():
    text = "op,CPU (s),GPU (s),Speedup\nMatrix 1000x1000,0.02,0.88,0.02\nMatrix 5000x5000,0.50,0.01,50.00\nTotal,1.00,0.95,1.05\n"
    assert accused(text) == {}
    found = asked(text)
    assert "at least 0.86 s were spent once" in found["cold first row"]
    assert "48 % of 1.00 in CPU (s)" in found["time in no row"]
    assert "by the total" in found["one speedup of the whole among several"]
    assert "50.00 of Matrix 5000x5000 is 33.0–101" in found["digits that rounding doesn't leave"]


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("op;cpu (ms)\nadd;1.00\nmul;1.10\nsum;0.50", "summary or operation", "sum, the last row, is neither the sum nor the mean"),
        ("batch;p50 (ms);p99 (ms)\n1;5.012;7.134\n2;5.012;7.134\n4;5.2;7.5", "copied row", "batch=1 and batch=2 have the same figures"),
        ("op;% of peak\na;45\nb;102", "more than the whole", "b has 102 in % of peak"),
        ("GPU;Price (USD)\nL4;0.71\nA10G;700\nH100;4.1", "price that can't be", "A10G: 700 USD/h"),
    ],
)  # fmt: skip
def test_a_number_with_a_possible_explanation_is_a_question(text, rule, words):
    assert accused(text) == {} and words in asked(text)[rule]


def test_a_gpu_that_the_user_names_is_the_limit(known):
    text = "op;cpu (s);gpu (s)\nMatrix 5000x5000;0.500;0.002\nMatrix 8000x8000;1.460;0.100"
    found = accused(text, known, known.gpus["l4"])
    assert "Matrix 5000x5000 would run at 100 TFLOP/s" not in str(found)  # 121 in fp16
    assert "above the peak of t4 in fp16, its highest, 65 TFLOP/s" in accused(text, known, known.gpus["t4"])["above the peak"]  # fmt: skip
    (table,) = read_tables(text, "f")
    (note,) = review(table, known.gpus["t4"], known).notes
    assert all(words in note for words in ("precision is not stated", "t4 in fp16", "65 TFLOP/s"))


def test_a_gpu_that_the_table_names_is_the_limit_of_its_rows(known):
    text = "gpu;TFLOPS\nA10G;90\nother;90"
    found = accused(text, known, known.gpus["a10"])
    assert (
        "A10G would run at 89.5 TFLOP/s or more in TFLOPS, above the peak of A10G" in found["above the peak"]
    )


def row(name, **sizes):
    kind, found = read_sizes(name)
    return TableRow(name, (), kind, (*found, *sizes.items()))


@pytest.mark.parametrize(
    ("larger", "smaller", "expected"),
    [
        ("Image 4096x4096 (batch 2)", "Image 2048x2048 (batch 1)", True),
        ("Image 4096x4096 (batch 1)", "Image 2048x2048 (batch 2)", False),
        ("Matrix 8192x8192", "Matrix 8000x8000", False),
        ("Matrix 8000x8000", "Image 1000x1000", False),
        ("ResNet-50", "ResNet-18", False),
        ("Test 8", "Test 3", False),
        ("train workers=8", "train workers=1", False),
        ("epoch=9", "epoch=1", False),
        ("bs32 fp16", "bs8 fp16", True),
        ("bs32 fp16", "bs8 fp32", False),
        ("Sort 10,000 elements", "Sort 1,000 elements", True),
    ],
)
def test_only_sizes_of_one_kind_are_compared(larger, smaller, expected):
    assert more_work(row(larger), row(smaller)) is expected


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("Matrix 1000x1000", {}, 2e9),
        ("matmul", {"n": 1000.0}, 2e9),
        ("gemm 10x20x30", {}, 12_000),
        ("Matrix multiplication 100 × 100 (batch 4)", {}, 8e6),
        ("anything", {"flops": 5e9}, 5e9),
        ("Matrix transpose 1000x1000", {}, None),
        ("Matrix 1000x500", {}, None),
        ("Image 4096x4096", {}, None),
        ("Matrix product", {}, None),
    ],
)
def test_flops_only_of_products_of_matrices(name, sizes, expected):
    assert flops(row(name, **sizes)) == expected


@settings(max_examples=60)
@given(
    times=st.lists(st.tuples(*[st.floats(0.02, 1e3)] * 2), min_size=1, max_size=12, unique=True),
    places=st.integers(2, 4),
)
def test_a_table_that_was_measured_and_rounded_is_never_accused(times, places):
    lines = [
        f"{'abcdefghijkl'[i]};{a:.{places}f};{b:.{places}f};{a / b:.2f}" for i, (a, b) in enumerate(times)
    ]
    total = [math.fsum(pair[i] for pair in times) for i in (0, 1)]
    lines.append(f"Total;{total[0]:.{places}f};{total[1]:.{places}f};{total[0] / total[1]:.2f}")
    found = accused("\n".join(["op;cpu (s);gpu (s);speedup", *lines]))
    assert set(found) <= {"a unit off"}  # of random times, some are a thousand times their neighbours


def test_numbers_that_have_no_ratio_in_floats_have_no_geometric_mean():
    text = "op;cpu (s);gpu (s)\na;1e-300;1e300\nb;1e300;1e-300\nc;3.00;1.00"
    (table,) = (table for table in read_tables(text, "f"))
    assert not [way for _, way, _ in review(table).overall if "geometric" in way]
