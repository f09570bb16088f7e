// What is used of the hub's own library: its programs that upload, and there are many, are left out of the bundle.

export { listFiles, modelInfo } from "@huggingface/hub";
