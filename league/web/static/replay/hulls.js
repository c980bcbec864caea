// Shapes of the classes, seen from above, as in arena/render/hulls.py: ahead is +x, left is +y, half a width is 1.
const mirrored = (half) => [...half, ...half.map(([x, y]) => [x, -y]).reverse()];
const box = (front, back, left, right) => [[front, left], [back, left], [back, right], [front, right]];

const OUTLINES = {
  scout: {
    hull: mirrored([[1.45, 0.12], [-0.35, 0.62], [-1.05, 1], [-0.6, 0.2]]),
    plates: [],
    barrels: [],
    cockpit: [0.1, 0],
  },
  light: {
    hull: mirrored([[1.2, 0.3], [0.5, 0.55], [0.1, 1], [-0.9, 0.9], [-0.65, 0.35], [-1, 0.25]]),
    plates: [],
    barrels: [[[0.2, 0.8], [1.05, 0.8]], [[0.2, -0.8], [1.05, -0.8]]],
    cockpit: [0.35, 0],
  },
  medium: {
    hull: mirrored([[0.85, 0.45], [0.45, 0.62], [0.4, 1], [-0.6, 1], [-0.7, 0.62], [-0.95, 0.5]]),
    plates: [box(0.2, -0.7, 0.4, -0.4)],
    barrels: [[[0.3, 0.8], [1.25, 0.8]], [[0.3, -0.8], [1, -0.8]]],
    cockpit: [0.45, 0],
  },
  heavy: {
    hull: mirrored([[0.7, 0.35], [0.7, 0.62], [0.85, 0.72], [0.85, 1.05], [-0.75, 1.05], [-0.95, 0.7]]),
    plates: [box(0.55, -0.55, 1, 0.72), box(0.55, -0.55, -0.72, -1), box(0.1, -0.75, 0.42, -0.42)],
    barrels: [[[0.8, 0.86], [1.25, 0.86]], [[0.8, -0.86], [1.45, -0.86]]],
    cockpit: [0.4, 0],
  },
};

function closed(outlines) {
  const path = new Path2D();
  for (const [[x, y], ...rest] of outlines) {
    path.moveTo(x, y);
    for (const point of rest) path.lineTo(...point);
    path.closePath();
  }
  return path;
}

function open(lines) {
  const path = new Path2D();
  for (const [start, end] of lines) {
    path.moveTo(...start);
    path.lineTo(...end);
  }
  return path;
}

const SHAPES = Object.fromEntries(
  Object.entries(OUTLINES).map(([role, { hull, plates, barrels, cockpit }]) => [
    role,
    { hull: closed([hull]), plates: closed(plates), barrels: open(barrels), cockpit },
  ]),
);

// Other classes look like a medium mech.
export const shapeOf = (role) => SHAPES[role] ?? SHAPES.medium;
