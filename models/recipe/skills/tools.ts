import type { Draw } from "../draw.js";
import { cities, names } from "../words.js";

export interface ToolDefinition {
  type: "function";
  function: {
    name: string;
    description: string;
    parameters: { type: "object"; properties: Record<string, { type: string }>; required: string[] };
  };
}

/** A question that needs a tool: the call, what the tool says, and the answer made of it. */
export interface ToolUse {
  tool: ToolDefinition;
  ask: string;
  arguments: Record<string, string>;
  response: string;
  answers: readonly string[];
}

function define(name: string, description: string, argument: string): ToolDefinition {
  return {
    type: "function",
    function: {
      name,
      description,
      parameters: { type: "object", properties: { [argument]: { type: "string" } }, required: [argument] },
    },
  };
}

const calculator = (draw: Draw): ToolDefinition =>
  define(
    draw.pick(["calculator", "calculator", "calc", "calculate"]),
    draw.pick(["Calculate a number.", "Calculates an expression.", "Evaluate an expression."]),
    "expression",
  );
const weather = (draw: Draw): ToolDefinition =>
  define(
    draw.pick(["get_weather", "weather"]),
    draw.pick(["Get the weather in a city.", "The weather of a city."]),
    draw.pick(["city", "place"]),
  );
const phone = (draw: Draw): ToolDefinition =>
  define(
    draw.pick(["get_phone", "phone_book"]),
    draw.pick(["Get the phone number of a person.", "Find a phone number."]),
    draw.pick(["name", "person"]),
  );

export function drawTools(draw: Draw): ToolDefinition[] {
  return draw
    .shuffled([calculator, weather, phone])
    .slice(
      0,
      draw.weighted([
        { share: 6, n: 1 },
        { share: 3, n: 2 },
      ]).n,
    )
    .map((make) => make(draw));
}

export function useTool(draw: Draw, tool: ToolDefinition): ToolUse {
  const name = tool.function.name;
  const argument = tool.function.parameters.required[0]!;
  if (argument === "expression") {
    const [a, b] = draw.pair("tool", () => [draw.integer(11, 999), draw.integer(2, 99)]);
    const operator = draw.pick(["+", "-", "*", "*"]);
    const value = operator === "+" ? a + b : operator === "-" ? a - b : a * b;
    const expression = `${a} ${operator} ${b}`;
    return {
      tool,
      ask: draw.pick([`What is ${expression}?`, `Calculate ${expression}.`, `How much is ${expression}?`]),
      arguments: { expression },
      response: String(value),
      answers: [`${expression} = ${value}`, `The answer is ${value}.`],
    };
  }
  if (name.includes("weather")) {
    const city = draw.item(
      () => draw.pick(cities),
      (item) => item,
    );
    const degrees = draw.integer(-9, 35);
    const sky = draw.pick(["sun", "rain", "snow", "wind", "clouds", "fog"]);
    const response = `${sky}, ${degrees} degrees`;
    return {
      tool,
      ask: draw.pick([`What is the weather in ${city}?`, `How is the weather in ${city}?`]),
      arguments: { [argument]: city },
      response,
      answers: [`The weather in ${city} is ${response}.`],
    };
  }
  const person = draw.item(
    () => draw.pick(names),
    (item) => item,
  );
  const number = String(draw.integer(10000, 99999));
  return {
    tool,
    ask: draw.pick([`What is the phone number of ${person}?`, `Find the number of ${person}.`]),
    arguments: { [argument]: person },
    response: number,
    answers: [`The number of ${person} is ${number}.`],
  };
}
