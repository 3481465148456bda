import { mathInMarkup } from "./build/math.js";

export default { preprocess: [mathInMarkup] };
