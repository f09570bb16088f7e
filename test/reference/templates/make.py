"""What Python's Jinja2 renders, in the environment that transformers gives chat templates.

    python make.py      # Jinja2 3.1.6, Python 3.11; writes expected.json, constructs.json and inputs.json beside this file
"""
import datetime, json, os
import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from constructs import BLOCKS, SOURCES, VARIABLES
import inputs
from conversations import CONVERSATIONS, SPECIAL_TOKENS

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2026, 11, 6, 15, 4, 5)


class Generation(Extension):
    """{% generation %}: in transformers it marks what the assistant wrote; the text is unchanged."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda format: NOW.strftime(format)


def render(source, variables):
    try:
        return {"text": environment.from_string(source).render(**json.loads(json.dumps(variables)))}
    except Exception as error:
        raised = type(error) is jinja2.exceptions.TemplateError
        return {"error": type(error).__name__, "raised": str(error) if raised else None}


def several_lines(text):
    return [block for block in text.split("---\n")[1:-1]]


if __name__ == "__main__":
    expected = {}
    for file in sorted(os.listdir(HERE)):
        if file.endswith(".jinja"):
            source = open(os.path.join(HERE, file), encoding="utf-8", newline="").read()
            expected[file] = {name: render(source, {**SPECIAL_TOKENS, **given}) for name, given in CONVERSATIONS.items()}
    conversations = {name: {**SPECIAL_TOKENS, **given} for name, given in CONVERSATIONS.items()}
    sources = [line.replace("\\\n", "\n") for line in SOURCES.strip("\n").split("\n")] + several_lines(BLOCKS)
    constructs = [{"source": source, **render(source, VARIABLES)} for source in sources]
    with open(os.path.join(HERE, "expected.json"), "w") as out:
        json.dump({"now": NOW.isoformat(), "conversations": conversations, "expected": expected}, out, indent=1)
    with open(os.path.join(HERE, "constructs.json"), "w") as out:
        json.dump({"now": NOW.isoformat(), "variables": VARIABLES, "cases": constructs}, out, indent=1)
    cases = {source: render(source, {}).get("text") for source in inputs.SOURCES}
    with open(os.path.join(HERE, "inputs.json"), "w") as out:
        json.dump({"what": "the text of each source; null where Python raises", "cases": cases}, out, indent=0)
    rendered = sum("text" in case for cases in expected.values() for case in cases.values())
    print(len(expected), "templates", len(conversations), "conversations", rendered, "rendered;", len(constructs), "constructs",
          sum("error" in case for case in constructs), "errors")
