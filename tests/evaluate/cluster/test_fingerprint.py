from evokernel.evaluate.cluster.fingerprint import ON_EVERY_MACHINE, differences, fingerprint, source_hash
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


def test_a_file_that_is_no_python_counts_and_compiled_modules_do_not(tmp_path):
    def hash_of(name, **files):
        for file, text in {"a.py": "1", **files}.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return source_hash(tmp_path / name)

    plain = hash_of("plain", **{"kernel.ptx": "ret;"})
    assert hash_of("compiled", **{"kernel.ptx": "ret;", "__pycache__/a.pyc": "2"}) == plain
    assert hash_of("edited", **{"kernel.ptx": "trap;"}) != plain
