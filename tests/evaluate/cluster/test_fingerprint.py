from evokernel.evaluate.cluster.fingerprint import ON_EVERY_MACHINE, differences, fingerprint
from evokernel.evaluate.device.device_class import Machine
from tests.support.fakes import H100


def test_a_host_with_another_driver_or_release_is_named():
    expected = fingerprint(Machine(H100, triton=True))
    assert differences(expected, expected) == ""
    assert (expected["device"], expected["driver"]) == ("NVIDIA H100", "570.133.20")
    found = {**expected, "driver": "1.0", "torch": "2.0"}
    assert differences({name: expected[name] for name in ON_EVERY_MACHINE}, {**expected, "driver": "1.0"}) == ""
    assert "driver is 1.0 and not 570.133.20" in differences(expected, found)
    assert "torch is 2.0 and not" in differences(expected, found)
