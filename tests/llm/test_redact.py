import logging

import pytest

from evokernel.llm.redact import MARK, RedactingFilter, Redactor, guard_logs

KEY = "sk-0123456789abcdef"


def test_variables_that_are_named_or_called_like_keys_are_secret() -> None:
    environment = {
        "OPENAI_API_KEY": "openai-key",
        "HF_TOKEN": "hf-secret-1",
        "MY_OWN": "private-1",
        "HOME": "/home/somebody",
    }
    redactor = Redactor.of_environment(["MY_OWN", "NOT_SET"], environment=environment)
    text = "openai-key hf-secret-1 private-1 /home/somebody"
    assert redactor.text(text) == f"{MARK} {MARK} {MARK} /home/somebody"


def test_short_values_are_no_keys() -> None:
    redactor = Redactor.of_environment(environment={"A_TOKEN": "1234567", "B_TOKEN": "", "C_TOKEN": "12345678"})
    assert redactor.text("1234567 12345678") == f"1234567 {MARK}"


def test_a_key_that_begins_with_another_leaves_no_rest() -> None:
    assert Redactor([KEY, KEY + "-long"]).text(f"{KEY}-long {KEY}") == f"{MARK} {MARK}"


def test_keys_are_found_in_names_and_values_of_parameters() -> None:
    value = {"headers": [{"auth": f"Bearer {KEY}"}], KEY: 3, "top_p": 0.5, "none": None}
    expected = {"headers": [{"auth": f"Bearer {MARK}"}], MARK: 3, "top_p": 0.5, "none": None}
    assert Redactor([KEY]).value(value) == expected


def test_log_records_lose_keys_in_text_arguments_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test_redact")
    guard = RedactingFilter(Redactor([KEY]))
    logger.addFilter(guard)
    try:
        logger.warning("the key %s of %d", KEY, 1)
        try:
            raise ValueError(f"bad key {KEY}")
        except ValueError:
            logger.exception("failed")
    finally:
        logger.removeFilter(guard)
    assert f"the key {MARK} of 1" in caplog.text
    assert f"bad key {MARK}" in caplog.text
    assert KEY not in caplog.text


def test_the_root_handlers_are_guarded_until_it_is_undone(caplog: pytest.LogCaptureFixture) -> None:
    undo = guard_logs(Redactor([KEY]))
    logging.getLogger("anybody.at.all").warning("with %s", KEY)
    assert KEY not in caplog.text
    undo()
    logging.getLogger("anybody.at.all").warning("with %s", KEY)
    assert KEY in caplog.text
