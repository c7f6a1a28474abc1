"""Text to tokens and back: byte-level BPE, and the chat template that ships beside the weights.

Every byte is a token, so any text can be encoded; a character outside the common ones is several tokens. Digits are
always one token each. Control tokens such as `<|eos|>` are never read out of a text: only `chat` and `bos` put them in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as Encoder
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from lab.model.errors import ModelError

BOS, EOS = "<|bos|>", "<|eos|>"
ROLES = ("system", "user", "assistant")
SPECIAL = (BOS, EOS, *(f"<|{role}|>" for role in ROLES))
_CONTROL = re.compile(f"({'|'.join(map(re.escape, SPECIAL))})")


class Tokenizer:
    """Encoder, decoder and chat template of one checkpoint."""

    def __init__(self, encoder: Encoder, template: str) -> None:
        self._encoder = encoder
        encoder.encode_special_tokens = (
            True  # a user who types <|eos|> gets its characters, not the control token
        )
        self.template = template
        self._render = _environment().from_string(template).render
        vocabulary = encoder.get_vocab()
        missing = [token for token in SPECIAL if token not in vocabulary]
        if missing:
            raise ModelError(f"the vocabulary lacks {', '.join(missing)}")
        self.bos_id = vocabulary[BOS]
        self.eos_id = vocabulary[EOS]
        self.vocab_size = len(vocabulary)
        self._special_ids = {token: vocabulary[token] for token in SPECIAL}
        byte_of = {char: byte for byte, char in _byte_characters().items()}
        self._bytes = [b""] * self.vocab_size
        for token, number in vocabulary.items():
            if token not in SPECIAL:
                self._bytes[number] = bytes(byte_of[char] for char in token)

    def encode(self, text: str, bos: bool = True) -> list[int]:
        """Tokens of a text, with the beginning-of-text token in front unless `bos` is false."""
        ids = self._encoder.encode(text, add_special_tokens=False).ids
        return [self.bos_id, *ids] if bos else [*ids]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode(text, bos=False)` of many texts at once, on all cores."""
        return [list(one.ids) for one in self._encoder.encode_batch(list(texts), add_special_tokens=False)]

    def role_id(self, role: str) -> int:
        """The control token that opens a message of `role`."""
        return self._special_ids[f"<|{role}|>"]

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for; none for a control token.

        :raises ModelError: when there is no such token.
        """
        if not 0 <= token < self.vocab_size:
            raise ModelError(f"there is no token {token}; the vocabulary has {self.vocab_size}")
        return self._bytes[token]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the tokens without control tokens; bytes that are no character become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The prompt for the assistant's next message, after messages of the form {"role": ..., "content": ...}.

        :raises ModelError: on an unknown role, or on a control token inside a message.
        """
        text = self.render(messages)
        ids: list[int] = []
        for piece in _CONTROL.split(text):
            special = self._special_ids.get(piece)
            ids.extend(self.encode(piece, bos=False) if special is None else [special])
        return ids

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
        """The text that `chat` encodes.

        :raises ModelError: as `chat`.
        """
        for message in messages:
            for token in SPECIAL:
                if token in message["content"]:
                    raise ModelError(f"a message must not contain the control token {token}")
        try:
            return self._render(
                messages=messages, bos_token=BOS, eos_token=EOS, add_generation_prompt=add_generation_prompt
            )
        except jinja2.TemplateError as error:
            raise ModelError(f"these messages do not fit the chat template: {error}") from error

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and chat_template.jinja, as transformers reads them."""
        self._encoder.save(str(folder / "tokenizer.json"))
        (folder / "chat_template.jinja").write_text(self.template, encoding="utf-8")
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "eos_token": EOS,
            "model_max_length": 1024,
            "clean_up_tokenization_spaces": False,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read what `save` wrote.

        :raises ModelError: when a file is missing or broken.
        """
        try:
            encoder = Encoder.from_file(str(folder / "tokenizer.json"))
            template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
        except Exception as error:  # the library raises bare Exception for a broken file
            raise ModelError(f"no usable tokenizer in {folder}: {error}") from error
        return cls(encoder, template)

    @classmethod
    def train(cls, texts: Sequence[str], vocab_size: int) -> Tokenizer:
        """Learn `vocab_size` tokens: the control tokens, 256 bytes, then merges of the most frequent neighbours."""
        encoder = Encoder(models.BPE())
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        encoder.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level]
        )
        encoder.decoder = decoders.ByteLevel()
        encoder.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        encoder.train_from_iterator(texts, trainer)
        template = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
        return cls(encoder, template)


def _environment() -> ImmutableSandboxedEnvironment:
    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    return environment


def _byte_characters() -> dict[int, str]:
    """The printable character that byte-level BPE writes for each byte (the convention of GPT-2).

    Printable Latin-1 stands for itself; the other bytes take the code points from 256 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
