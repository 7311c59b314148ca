import pytest
import torch

from tests.workloads.harness.training.data_sets import env
from workloads.harness.training.data import (
    CIFAR10,
    CLASSES,
    CORA_CLASSES,
    MNIST,
    load_graph,
    load_images,
    normalised,
)


class TestDrawnImages:
    @pytest.mark.parametrize("kind", [MNIST, CIFAR10])
    def test_drawn_images_have_the_shape_of_real_images(self, kind):
        drawn = load_images(env(), kind, 250, held_out=True)
        assert drawn.images.shape == (250, kind.channels, kind.side, kind.side)
        assert drawn.images.dtype == torch.uint8
        assert drawn.labels.shape == (250,)
        assert len(drawn.held_images) == len(drawn.held_labels) == -(-250 * kind.held_out // kind.images)
        assert drawn.source == "synthetic"
        assert set(drawn.labels.tolist()) == set(range(CLASSES))

    def test_the_full_set_holds_out_as_many_images_as_the_real_set(self):
        assert len(load_images(env(), MNIST, 60_000, held_out=True).held_labels) == 10_000

    def test_drawn_images_are_the_same_on_every_machine(self):
        drawn = load_images(env(7), MNIST, 3, held_out=True)
        assert drawn.labels.tolist() == [9, 2, 0]
        assert drawn.images[0, 0, 5, :8].tolist() == [177, 234, 150, 117, 126, 211, 70, 156]
        assert int(drawn.images.long().sum()) == 280792

    @pytest.mark.parametrize("kind", [MNIST, CIFAR10])
    def test_drawn_images_follow_the_seed(self, kind):
        one, same, other = (load_images(env(seed), kind, 40) for seed in (1, 1, 2))
        assert torch.equal(one.images, same.images)
        assert torch.equal(one.labels, same.labels)
        assert not torch.equal(one.images, other.images)

    def test_images_beyond_the_first_chunk_are_composed_too(self):
        drawn = load_images(env(), MNIST, 5000)
        assert float(drawn.images[4500:].float().mean()) == pytest.approx(
            float(drawn.images.float().mean()), rel=0.02
        )

    @pytest.mark.parametrize("kind", [MNIST, CIFAR10])
    def test_a_class_is_seen_in_the_mean_of_its_images_and_in_those_held_out(self, kind):
        drawn = load_images(env(), kind, 2000, held_out=True)
        means = torch.stack(
            [drawn.images[drawn.labels == label].double().mean(0) for label in range(CLASSES)]
        )
        centred = (means - means.mean(0)).flatten(1)
        scores = (drawn.held_images.double() - means.mean(0)).flatten(1) @ centred.T
        right = (scores.argmax(1) == drawn.held_labels).double().mean()
        assert right > 0.3  # noise and shifts leave work to do, and chance is 0.1

    def test_normalised_bytes_are_as_in_the_example(self):
        pixels = torch.tensor([0, 128, 255], dtype=torch.uint8)
        assert normalised(MNIST, pixels).tolist() == pytest.approx([-0.4242, 1.2050, 2.8215], abs=1e-4)
        assert pixels.tolist() == [0, 128, 255]


class TestDrawnGraph:
    def test_a_drawn_graph_has_the_shape_of_cora(self):
        graph = load_graph(env())
        assert sorted(torch.bincount(graph.labels).tolist()) == sorted(CORA_CLASSES)
        assert len(graph.labels) == 2708
        assert (graph.dictionary, graph.classes) == (1433, 7)
        assert graph.links.shape == (2, 5429)
        assert graph.words.shape[1] == pytest.approx(49_216, rel=0.05)  # words in Cora's papers

    @pytest.mark.parametrize("seed", range(5))
    def test_links_are_distinct_and_every_paper_has_a_link(self, seed):
        graph = load_graph(env(seed))
        low, high = graph.links
        assert (low < high).all()
        assert len(set(zip(low.tolist(), high.tolist(), strict=True))) == 5429
        degree = torch.bincount(graph.links.flatten(), minlength=2708)
        assert int(degree.min()) >= 1
        assert int(degree.max()) > 50  # a few papers are cited by very many, as in Cora: 168
        assert 0.79 < (graph.labels[low] == graph.labels[high]).double().mean() < 0.86  # Cora: 0.81

    def test_a_drawn_graph_follows_the_seed(self):
        one, same, other = (load_graph(env(seed)) for seed in (1, 1, 2))
        assert torch.equal(one.words, same.words)
        assert torch.equal(one.links, same.links)
        assert not torch.equal(one.links, other.links)
