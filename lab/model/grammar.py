"""The grammar of the training text, as data, with what it takes to write in it and to recognise it.

A rule is a tuple of alternatives. In an alternative `{name}` stands for another rule, `#` for any digit and `@` for a
digit from 1 to 9; all else is itself. No rule refers to itself, so every text is finite and recognising one is a walk.
Every clause has several free places: a window of 60 characters hardly ever occurs twice, so copies can be told apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache

from lab.model.errors import ModelError

# fmt: off
RULES: Mapping[str, tuple[str, ...]] = {
    # numbers and times
    "few": ("2", "3", "4", "5", "6", "7", "8", "9"),
    "n": ("{few}", "@#", "@#", "@##", "@##", "@##"),
    "six": ("0", "1", "2", "3", "4", "5"),
    "clock": ("0#:{six}#", "1#:{six}#", "2{few4}:{six}#"),
    "few4": ("0", "1", "2", "3"),
    "ms": ("@## ms", "@# ms", "@.# s", "@# s", "@,### ms"),
    "share": ("@#%", "@.#%", "9#.#%"),
    "request": ("r@###", "request r@###", "stream s@##", "request {letter}@##"),
    "letter": ("a", "b", "c", "d", "e", "f", "g", "h", "k", "m", "p", "q", "x"),
    # people and places
    "name": (
        "Zoë", "Łukasz", "Inés", "Søren", "Chloé", "Jürgen", "Ada", "Grace", "Noor", "Amélie", "Tomáš", "Anaïs",
        "Mei", "Raúl", "Björn", "Ngọc", "Émile", "Fátima", "Kofi", "Priya", "Liam", "Yuki", "Óscar", "Renée",
    ),
    "city": (
        "Lyon", "Zürich", "São Paulo", "Kraków", "Málaga", "Oslo", "Nairobi", "Taipei", "Besançon", "Göteborg",
        "Lima", "Porto", "Austin", "Kyoto", "Tromsø", "Delhi", "Perth", "Liège", "Gdańsk", "Turin", "Quito", "Århus",
        "Bergen", "Malmö", "Dakar", "Seoul", "Riga", "Orléans", "Cádiz", "Leeds", "Haifa", "Split",
    ),
    # things
    "kind": (
        "main", "second", "blue", "old", "new", "small", "busy", "northern", "spare", "first", "test", "public",
        "night", "batch", "voice", "search", "edge", "green", "large", "quiet", "mobile", "billing", "student", "chat",
    ),
    "part": (
        "gateway", "worker", "proxy", "scheduler", "router", "server", "cache", "queue", "breaker", "balancer",
        "collector", "client", "decoder", "reader", "backend", "engine", "socket", "sampler", "tokenizer", "dashboard",
    ),
    "part_of": ("the {kind} {part}", "the {kind} {part}", "a {kind} {part}", "{kind} {part} @#", "{name}’s {kind} {part}"),
    "Part_of": ("The {kind} {part}", "The {kind} {part}", "A {kind} {part}", "{name}’s {kind} {part}"),
    "things": (
        "tokens", "events", "streams", "requests", "blocks", "slots", "bytes", "retries", "credits", "frames",
        "leases", "deltas", "pings", "rows", "steps", "prompts", "sockets", "chunks", "samples", "answers",
        "timeouts", "errors",
    ),
    "metric": (
        "queue depth", "first-token time", "p99 latency", "goodput", "error rate", "batch size", "token count",
        "retry rate", "park time", "hit rate", "step time", "send buffer", "memory use", "wait time",
    ),
    "ending": (
        "stop", "length", "client_cancel", "client_disconnect", "slow_consumer", "drain", "backend_error",
        "worker_lost", "idle_timeout", "queue_timeout", "overall_deadline", "overloaded",
    ),
    "mark": ("✅", "🔥", "⏳", "🧯", "🚦", "🐌", "🛑", "🚀", "🧵", "📉", "📈", "🔁", "🐢", "🪣", "💧", "⚠️"),
    # clauses
    "symptom": (
        "stopped reading after {n} {things}", "lost {n} {things} in {ms}", "parked {request} for {ms}",
        "held {n} {things} and {n} {things}", "waited {ms} for {part_of}", "kept {n} {things} of {request}",
        "retried {request} {n} times", "filled up with {n} {things}", "sent {n} of {n} {things}",
        "answered {request} after {ms}", "refused {n} {things} from {city}", "dropped {request} at token {n}",
        "ran {n} steps for {request}", "took {ms} for {n} {things}", "woke up {n} {things} too late",
        "closed {n} {things} before {request}",
    ),
    "cause": (
        "{part_of} never gave back {n} {things}", "{part_of} had a limit of {n} {things}",
        "a timer of {ms} fired {n} times", "{name} had allowed {n} {things}",
        "{part_of} took {n} {things} for {n} {things}", "{n} {things} shared one lock for {ms}",
        "{request} came back {n} {things} later", "lease @## of {part_of} ended after {ms}",
        "{part_of} hid {n} {things} for {ms}", "{request} waited {ms} for {part_of}",
        "{ms} was too short for {n} {things}", "{share} of the load went to {part_of}",
    ),
    "action": (
        "set the limit to {n} {things}", "restarted {part_of} in {ms}", "gave {part_of} {ms} more",
        "drained {part_of} in {ms}", "cut the batch to {n} {things}", "moved {share} of the load to {city}",
        "ended {request} as {ending}", "put {n} credits on {request}", "freed {n} {things} of {part_of}",
        "opened breaker @## for {ms}", "wrote test @## with {n} {things}", "watched {request} for {ms}",
        "lowered limit @## from {n} to {n}", "asked {name} about {request}",
    ),
    "done": (
        "{n} {things} are free again", "{part_of} sends {n} {things} a second", "the {metric} of {request} is {ms}",
        "{share} of {n} {things} end as {ending}", "{part_of} reads {n} {things}", "{n} {things} are safe in {city}",
        "the {metric} of {part_of} is {ms}", "{request} has its ending", "{n} of {n} {things} came through",
    ),
    # sentences
    "opening": (
        "At {clock} {part_of} in {city} {symptom}.", "{mark} {city}, {clock}: {part_of} {symptom}.",
        "{Part_of} in {city} {symptom} at {clock}.", "{name} called at {clock}: {part_of} {symptom}.",
        "Incident @## in {city}: {part_of} {symptom}.",
    ),
    "middle": (
        "{name} saw {n} {things} in {part_of} of {city}.", "The {metric} rose from {ms} to {ms} in {city}.",
        "The {metric} of {part_of} fell to {share} by {clock}.", "{Part_of} {symptom}, and {part_of} {symptom}.",
        "From {clock} to {clock} {n} {things} ended as {ending}.", "By {clock} {request} {mark} ended as {ending}.",
        "{n} of @,### {things} came from {part_of} in {city}.", "While {part_of} slept, {part_of} {symptom}.",
        "{Part_of} made {n} {things} and sent {n}.",
    ),
    "why": (
        "Cause @#: {cause}.", "{name} found that {cause}.", "{name} saw why: {cause}.", "So {cause}.",
        "In {city} {cause}, and {cause}.", "The {clock} log says: {cause}.",
    ),
    "fix": (
        "{name} {action} and {action}.", "At {clock} {name} {action}.", "We {action}, then {action}.",
        "{mark} {name} {action}; now {done}.", "After {ms} {name} {action}.",
    ),
    "closing": (
        "Since {clock} {done}.", "Now {done}, and {done}.", "{mark} By {clock} {done}.",
        "{name} noted at {clock}: {cause}.", "After {ms} {done}.",
    ),
    "french": (
        "À {clock}, le {fr_part} de {city} a {fr_did}.", "{name} a {fr_did} à {clock}, puis a {fr_did}.",
        "À {city}, le {fr_part} a {fr_did} ; {name} l’a {fr_fixed} à {clock}.",
    ),
    "fr_part": ("serveur", "répartiteur", "décodeur", "client", "réseau", "générateur", "modèle", "cœur"),
    "fr_did": (
        "gardé {n} jetons", "arrêté {request}", "libéré {n} blocs", "réessayé {n} fois", "vidé sa mémoire en {ms}",
        "répondu après {ms}", "coupé {n} flux", "mis {n} requêtes en attente",
    ),
    "fr_fixed": ("relancé", "vidé", "réglé", "arrêté", "réparé", "déplacé"),
    "chinese": (
        "{clock}，{zh_city}的{zh_part}{zh_did}。", "{zh_part}{zh_did}，{name}在{clock}{zh_fixed}。",
        "{zh_city}有{n}个请求{zh_did}，{zh_part}{zh_did}。", "{mark}{name}{zh_fixed}，{zh_part}{zh_did}。",
    ),
    "zh_city": ("上海", "台北", "成都", "深圳", "杭州", "西安", "南京", "广州", "武汉", "青岛"),
    "zh_part": ("网关", "调度器", "缓存", "引擎", "客户端", "队列", "解码器", "服务器", "慢读者", "断路器", "令牌桶"),
    "zh_did": (
        "等了{ms}", "丢了{n}个词元", "停了{n}步", "满了{n}次", "超时{ms}", "重试{n}次", "占用{n}块内存", "取消了{request}",
        "恢复到{share}", "写满{n}个缓冲", "释放{n}个槽位", "安静了{ms}",
    ),
    "zh_fixed": (
        "重启了{zh_part}", "把上限改成{n}", "排空了{zh_part}", "关掉{n}个连接", "看了{n}行日志", "加了{n}个信用",
        "把期限改成{ms}",
    ),
    # questions and answers
    "question_en": (
        "What happened to {request} in {city}?", "Why did {request} end as {ending} at {clock}?",
        "Who {action}?", "{Part_of} in {city} {symptom}. Why?", "Is it true that {cause}?",
        "{mark} The {metric} of {part_of} is at {ms}. What now?", "How many {things} did {part_of} hold at {clock}?",
        "{name} {action}. Was that right?", "Hello, is {part_of} in {city} ready?", "Tell me about {part_of} in {city}.",
    ),
    "question_fr": ("Pourquoi le {fr_part} de {city} a {fr_did} ?", "{name} a {fr_did}. Et le {fr_part} de {city} ?"),
    "question_zh": ("{zh_city}的{zh_part}为什么{zh_did}？", "{name}{zh_fixed}了吗？{zh_part}怎么样？", "谁让{zh_part}{zh_did}？"),
    "answer": (
        "It ended as {ending} after {n} {things}.", "Yes: {cause}.", "No, {part_of} {symptom}.", "{Part_of} {symptom}.",
        "It held {n} {things} at {clock}.", "{mark} Yes, {done}.", "At {clock} {part_of} {symptom}.",
        "Not yet: {cause}.", "{name} {action} at {clock}.", "Wait {ms}: {part_of} {symptom}.",
    ),
    "aside": ("{chinese}", "{french}"),
    "any": ("{middle}", "{middle}", "{why}", "{why}", "{fix}", "{fix}", "{closing}", "{aside}"),
    "report": (
        "{opening} {middle} {why} {fix} {closing}", "{opening} {why} {fix} {closing}", "{opening} {middle} {fix}",
        "{opening} {middle} {middle} {why} {fix}", "{opening} {any} {any}", "{opening} {any} {any} {any}",
        "{opening} {any} {any} {any} {any}", "{chinese}{chinese}{chinese}", "{french} {french} {french}",
    ),
    "reply_en": (
        "{answer} {why}", "{answer} {why} {fix}", "{answer} {any}", "{answer} {any} {any}", "{answer} {fix} {closing}",
    ),
    "reply_fr": ("{french}", "{french} {french}"),
    "reply_zh": ("{chinese}", "{chinese}{chinese}"),
    "question": ("{question_en}", "{question_fr}", "{question_zh}"),
    "reply": ("{reply_en}", "{reply_fr}", "{reply_zh}"),
    "duty": (
        "You watch {part_of} in {city}.", "You are {part_of} and {name} is your operator.",
        "Answer {name} about the {metric} of {part_of}.", "You serve {n} {things} for {city}.",
    ),
}
# fmt: on

_PARTS = re.compile(r"\{(\w+)\}|([#@])|([^{#@]+)")
_DIGITS = {"#": "0123456789", "@": "123456789"}


@cache
def _alternatives(rule: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """The rule's alternatives, each as a sequence of ("rule", name), ("digit", digits) and ("text", text)."""
    if rule not in RULES:
        raise ModelError(f"the grammar has no rule {rule!r}")
    return tuple(tuple(_part(match) for match in _PARTS.finditer(text)) for text in RULES[rule])


def _part(match: re.Match[str]) -> tuple[str, str]:
    name, digit, text = match.groups()
    if name:
        return "rule", name
    return ("digit", _DIGITS[digit]) if digit else ("text", text)


def write(rule: str, random_: random.Random) -> str:
    """One text that follows `rule`, every choice uniform.

    :raises ModelError: when there is no such rule.
    """
    pieces = []
    for kind, value in random_.choice(_alternatives(rule)):
        if kind == "rule":
            pieces.append(write(value, random_))
        else:
            pieces.append(random_.choice(value) if kind == "digit" else value)
    return "".join(pieces)


def parses(rule: str, text: str) -> bool:
    """Whether the whole of `text` follows `rule`.

    :raises ModelError: when there is no such rule.
    """
    return len(text) in _matcher(text)(rule, 0)


def _matcher(text: str) -> Callable[[str, int], frozenset[int]]:
    """A function from (rule, start) to every place where a text of that rule may end."""

    @cache
    def ends(rule: str, start: int) -> frozenset[int]:
        found: set[int] = set()
        for alternative in _alternatives(rule):
            places = {start}
            for kind, value in alternative:
                places = {end for place in places for end in step(kind, value, place)}
                if not places:
                    break
            found |= places
        return frozenset(found)

    def step(kind: str, value: str, place: int) -> frozenset[int]:
        if kind == "rule":
            return ends(value, place)
        if kind == "text":
            return frozenset({place + len(value)}) if text.startswith(value, place) else frozenset()
        return frozenset({place + 1}) if text[place : place + 1] in tuple(value) else frozenset()

    return ends
