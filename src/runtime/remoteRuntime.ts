// Computing on servers as others see it, apart from the room's other face: most engines do without.

export { TinkerDevice } from "./tinker/tinkerDevice.js";
export { type TinkerAddress, TinkerServer } from "./tinker/tinkerServer.js";
