"""Ray's functions about a cluster, answered for this machine."""

import platform

import pytest

import paceline


@pytest.fixture(autouse=True)
def shut_down():
    yield
    paceline.shutdown()


def test_init_is_a_context_manager():
    with paceline.init() as context:
        assert paceline.is_initialized()
        assert context.dashboard_url == "" and context.python_version == platform.python_version()
    assert not paceline.is_initialized()
    paceline.init().disconnect()
    assert not paceline.is_initialized()


def test_what_init_returns_is_a_mapping_of_addresses():
    context = paceline.init()
    assert context["address"] == context.address_info["address"] == "local" and context.address_info["webui_url"] == ""
    assert context.get("gcs_address", "nowhere") is None and "node_id" in context and "nothing" not in context
    assert dict(context) == context.address_info and context == paceline.init(ignore_reinit_error=True)


def test_init_twice_is_an_error():
    paceline.init()
    with pytest.raises(RuntimeError, match="shutdown"):
        paceline.init()
