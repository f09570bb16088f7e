"""The openai package for Python against a server whose models are `demo`, an agent that says what is written down, and `vectors`."""

import openai
from pydantic import BaseModel

GREETING = "Good day to you."
client = openai.OpenAI(max_retries=0)


class Report(BaseModel):
    city: str
    degrees: int


assert client.responses.create(model="demo", input="Hi").output_text == GREETING
with client.responses.stream(model="demo", input="Hi") as stream:
    kinds = [event.type for event in stream]
    assert stream.get_final_response().output_text == GREETING
assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
parsed = client.responses.parse(model="demo", input="json", text_format=Report)
assert parsed.output_parsed == Report(city="Oslo", degrees=-3)

parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
tools = [{"type": "function", "name": "weather", "parameters": parameters, "strict": True}]
first = client.responses.create(model="demo", input="Weather?", tools=tools)
call = next(item for item in first.output if item.type == "function_call")
output = [{"type": "function_call_output", "call_id": call.call_id, "output": "cold"}]
second = client.responses.create(model="demo", previous_response_id=first.id, input=output, tools=tools)
assert second.output_text == "It is cold in Oslo."
assert [item.type for item in client.responses.input_items.list(second.id)] == ["function_call_output"]
for event in client.responses.create(model="demo", input="Weather?", tools=tools, stream=True):
    last = event
assert last.type == "response.completed"
endless = client.responses.create(model="demo", input="loop", background=True)
assert client.responses.cancel(endless.id).status == "cancelled"
client.responses.delete(second.id)
try:
    client.responses.retrieve(second.id)
    raise SystemExit("a deleted response was found")
except openai.NotFoundError:
    pass

messages = [{"role": "user", "content": "Hi"}]
assert client.chat.completions.create(model="demo", messages=messages).choices[0].message.content == GREETING
assert client.chat.completions.parse(
    model="demo", messages=[{"role": "user", "content": "json"}], response_format=Report
).choices[0].message.parsed == Report(city="Oslo", degrees=-3)
pieces = client.completions.create(model="demo", prompt="[hello]", max_tokens=8, stream=True)
assert "".join(piece.choices[0].text for piece in pieces) == GREETING
echoed = client.completions.create(model="demo", prompt="[hello]", max_tokens=8, logprobs=2, echo=True).choices[0]
assert echoed.text == f"[hello]{GREETING}" and echoed.logprobs.token_logprobs[0] is None
data = client.embeddings.create(model="vectors", input=["a", "b"]).data
assert [len(one.embedding) for one in data] == [64, 64]
assert len(client.embeddings.create(model="vectors", input="a", dimensions=8).data[0].embedding) == 8
assert "demo" in [model.id for model in client.models.list()]
print("openai", openai.__version__)
