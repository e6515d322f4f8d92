import re

from hypothesis import given
from hypothesis import strategies as st

from lakebed.format.tree_names import hash_of, owner_of, token_text, tree_file_name, writer_of
from lakebed.model.ids import Nonce
from lakebed.model.segments import attempt_nonce

DIGEST = "0123456789abcdef" * 4

tokens = st.integers(0, 2**60 - 1)
nonces = st.text("0123456789abcdefghijklmnopqrstuv", min_size=20, max_size=20).map(Nonce)


def test_names_never_change() -> None:
    assert (
        tree_file_name(DIGEST, "0" * 20)
        == "0123456789abcdef0123456789ab" + "a7d351f3de399c746064a53c69959ab10312"
    )
    assert (
        tree_file_name(DIGEST, attempt_nonce(Nonce("0" * 20), 2**40 + 255))
        == "0123456789abcdef0123456789ab" + "a7d351f3de399c746064" + "00000100000000ff"
    )


@given(nonces, nonces, tokens)
def test_a_name_has_64_digits_and_begins_with_its_hash(nonce: Nonce, incarnation: Nonce, token: int) -> None:
    for writer in (nonce, attempt_nonce(incarnation, token)):
        name = tree_file_name(DIGEST, writer)
        assert re.fullmatch("[0-9a-f]{64}", name)
        assert DIGEST.startswith(hash_of(name))
        assert name.endswith(writer_of(writer))
        assert hash_of(f"{name}.lake-uid") == hash_of(name)


@given(nonces, nonces)
def test_each_operation_has_names_of_its_own(one: Nonce, other: Nonce) -> None:
    assert (tree_file_name(DIGEST, one) == tree_file_name(DIGEST, other)) == (one == other)


@given(nonces, tokens, tokens)
def test_attempts_sort_by_their_tokens(incarnation: Nonce, one: int, other: int) -> None:
    first, second = (writer_of(attempt_nonce(incarnation, token)) for token in (one, other))
    assert (first < second) == (one < other)
    assert first == owner_of(incarnation) + token_text(one)


def test_names_of_earlier_versions_carry_their_whole_hash() -> None:
    assert hash_of(f"{DIGEST}-{'0' * 20}") == DIGEST
    assert hash_of(f"{DIGEST}-{'0' * 20}-7.lake-uid") == DIGEST
    assert hash_of("") == ""
