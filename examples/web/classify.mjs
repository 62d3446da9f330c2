// From the pixels of a drawing to a digit.

const SIDE = 8;

/** The likeliest digit of a square drawing, black on white, as pixels of red, green, blue, alpha. */
export function classify(model, pixels, side) {
  const image = new Float32Array(SIDE * SIDE);
  const cell = side / SIDE;
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const ink = 1 - pixels[4 * (y * side + x)] / 255;
      image[Math.floor(y / cell) * SIDE + Math.floor(x / cell)] += ink / (cell * cell);
    }
  }
  const most = Math.max(...image, 1e-6); // pens are thinner, or thicker, than those of the samples
  const { data } = model.run({ image: image.map((v) => v / most) }).digit;
  const digit = data.indexOf(Math.max(...data));
  return { digit, chance: data[digit] };
}
