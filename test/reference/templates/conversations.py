"""The variables that every template is rendered with."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "the weather at a place,\nnow or later",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "a city & its <country>"},
        "days": {"type": "integer"}, "unit": {"type": "string", "enum": ["C", "F"]}}}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": None, "parameters": {"type": "object", "properties": {
        "terms": {"type": "array", "items": {"type": "string"}}, "limit": {"type": ["integer", "null"]},
        "filter": {"type": "object"}, "fuzzy": {"type": "boolean"}, "score": {"type": "number"}}}}}
CALL = {"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź", "days": 2}}}
CALL2 = {"id": "abcdef124", "type": "function", "function": {"name": "search", "arguments": {"terms": ["a", "b\"c"], "limit": None, "score": 0.5}}}


def user(text, **more):
    return {"role": "user", "content": text, **more}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


TOOL_TURNS = [user("How is the weather?"), assistant("", tool_calls=[CALL]),
              {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "{\"sky\": \"grey\"}"}]

CONVERSATIONS = {
    "one question": {"messages": [user("Hi")], "add_generation_prompt": True},
    "without a prompt for the answer": {"messages": [user("Hi")], "add_generation_prompt": False},
    "add_generation_prompt missing": {"messages": [user("Hi"), assistant("Hello")]},
    "system first": {"messages": [system("Be brief."), user("Hi")], "add_generation_prompt": True},
    "several turns": {"messages": [system("Be brief."), user("1 + 1?"), assistant("2"), user("And 2 + 2?")], "add_generation_prompt": True},
    "spaces around texts": {"messages": [system("  Be brief. \n"), user("\n Hi \t"), assistant(" Hello \n\n"), user(" ")], "add_generation_prompt": True},
    "many lines": {"messages": [user("a\nb\n\n  c\n"), assistant("x\n y"), user("z")], "add_generation_prompt": True},
    "not Latin": {"messages": [user("Zażółć 😀 你好 'quoted' \"twice\" \\ & <b>"), assistant("ééé"), user("👩‍👩‍👧")], "add_generation_prompt": True},
    "two users in a row": {"messages": [user("a"), user("b")], "add_generation_prompt": True},
    "ends with the assistant": {"messages": [user("Say yes"), assistant("yes")], "add_generation_prompt": False},
    "reasoning in the text": {"messages": [user("Why?"), assistant("<think>\nlet me see\n</think>\n\nBecause."), user("Sure?")], "add_generation_prompt": True},
    "reasoning apart": {"messages": [user("Why?"), assistant("Because.", reasoning_content="a rather long way of thinking", reasoning="a rather long way of thinking")], "add_generation_prompt": False},
    "thinking off": {"messages": [user("Why?")], "add_generation_prompt": True, "enable_thinking": False, "reasoning_effort": "low"},
    "thinking on": {"messages": [user("Why?")], "add_generation_prompt": True, "enable_thinking": True},
    "tools offered": {"messages": [system("Use tools."), user("Weather?")], "tools": [WEATHER, SEARCH], "add_generation_prompt": True},
    "tools without a system message": {"messages": [user("Weather?")], "tools": [WEATHER], "add_generation_prompt": True},
    "a tool called": {"messages": TOOL_TURNS, "tools": [WEATHER], "add_generation_prompt": True},
    "a tool answered": {"messages": [*TOOL_TURNS, assistant("Grey.")], "tools": [WEATHER, SEARCH], "add_generation_prompt": False},
    "two calls at once": {"messages": [user("Both"), assistant("On it.", tool_calls=[CALL, CALL2]),
                                       {"role": "tool", "tool_call_id": "abcdef123", "content": "grey"},
                                       {"role": "tool", "tool_call_id": "abcdef124", "content": "nothing"}, assistant("Done"), user("Thanks")],
                          "tools": [WEATHER, SEARCH], "add_generation_prompt": True},
    "call without content": {"messages": [user("Go"), {"role": "assistant", "content": None, "tool_calls": [CALL2]}], "add_generation_prompt": True},
    "documents": {"messages": [user("Who?")], "documents": [{"title": "One", "text": "first\nline"}, {"title": "Two", "text": "second"}], "add_generation_prompt": True},
    "contents in parts": {"messages": [user([{"type": "text", "text": "Look: "}, {"type": "text", "text": "here "}])], "add_generation_prompt": True},
    "an odd role": {"messages": [user("a", name="Ann"), {"role": "narrator", "content": "b"}], "add_generation_prompt": True},
    "a developer": {"messages": [system("One."), {"role": "developer", "content": "Two."}, user("c")], "add_generation_prompt": True},
    "nothing said": {"messages": [], "add_generation_prompt": True},
    "numbers": {"messages": [user("n")], "add_generation_prompt": True, "date_string": "1 Jan 2030", "tools_in_user_message": False, "tools": [WEATHER]},
}

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
