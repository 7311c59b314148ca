import os
import socket

from infra.local.ports import free_port, port_taken


def test_a_free_port_is_free():
    port = free_port()
    assert 1024 < port < 65536
    assert port_taken("127.0.0.1", port) is None


def test_a_taken_port_is_explained_with_the_process_that_has_it():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        sentence = port_taken("127.0.0.1", port)
    assert sentence and f"Port {port}" in sentence and f"process {os.getpid()}" in sentence


def test_a_port_that_was_just_closed_can_be_had_again():
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()
    assert port_taken("127.0.0.1", port) is None


def test_an_address_that_is_not_ours():
    sentence = port_taken("192.0.2.1", 80)
    assert sentence and "192.0.2.1" in sentence
