import type { ToolFormat } from "../toolFormats.js";

/** How a turn of a conversation comes back in the prompt of the next one. */
export interface TurnInspection {
  /** What kind of turn it is. */
  turn: string;
  /** Whether the next prompt begins with the tokens that were sampled from, and with those that were. */
  exact: boolean;
  /** The prompt, a reply and its end, as they were. */
  sampled: string;
  /** The next prompt; "" where the template refuses the turn. */
  rendered: string;
  /** Where they differ first, in UTF-16 units; null: nowhere. */
  differs_at: number | null;
  /** What the template refuses the turn with. */
  refused: string | null;
}

/** What stands before thoughts and after them. */
export interface ThoughtMarks {
  /** Before. */
  open: string;
  /** After. */
  close: string;
}

/** The memory for a model and one sequence. */
export interface ContextMemory {
  /** Of the sequence. */
  tokens: number;
  /** Of both together. */
  bytes: number;
}

/** What a model's folder is and needs. */
export interface ModelInspection {
  /** What it is called where nothing else is said. */
  id: string;
  /** Its folder. */
  path: string;
  /** What its weights are stored as. */
  format: "safetensors" | "gguf" | "onnx";
  /** By its config.json. */
  architecture: string | null;
  /** Likewise. */
  model_type: string | null;
  /** What it takes beside text ("vision", "audio"), none of which is loaded. */
  left_out: string[];
  /** Of what is loaded; null: not known. */
  parameters: number | null;
  /** What its weights are computed in. */
  dtype: string;
  /** Formats of those that are quantised ("Q4_K", "INT4_128"), that of most numbers first; empty: none are. */
  quantized: string[];
  /** Positions that a sequence may have. */
  context_length: number;
  /** In bytes. */
  memory: {
    /** All of them. */
    weights: number;
    /** Of cache, for each position of a sequence, as long as all layers see it. */
    per_token: number;
    /** What the weights and one sequence as long take together. */
    contexts: ContextMemory[];
    /** Of activations, for each token that is trained on at once; null: it cannot be trained. */
    training_per_token: number | null;
  };
  /** The file that its chat template stands in; null: it has none. */
  chat_template: string | null;
  /** How it writes tool calls, by the names of the option `toolParser`; null: in no known way. */
  tool_parser: ToolFormat | null;
  /** The marks around its thoughts; null: it has none. */
  reasoning: ThoughtMarks | null;
  /** What the template calls the switches for thoughts, which requests set with `chat_template_kwargs` or `reasoning_effort`. */
  thinking_switches: string[];
  /** Texts of the tokens that end a reply. */
  end_tokens: string[];
  /** Its kinds of turns. Where one is not exact, training uses the sampled tokens all the same, each turn in a row of its own. */
  turns: TurnInspection[];
}
