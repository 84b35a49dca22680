/** Places the labels of points in a chart where they cover neither markers nor each other. Pure. */

export interface LabelledPoint {
  readonly x: number;
  readonly y: number;
  readonly label: string;
}

export interface PlacedLabel {
  /** Index of its point. */
  readonly at: number;
  /** Left end of its baseline. */
  readonly x: number;
  readonly y: number;
  /** Whether it is so far from its point that it needs a line to it. */
  readonly isMoved: boolean;
}

interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const markerRadius = 5;
/** Distances from the point, nearest first, and directions in which a label is tried. */
const distances = [11, 17, 25, 34, 44, 55];
const directions = [45, 135, -45, -135, 90, -90, 20, 160, 70, 110, -70, -110, 0, 180];

const overlap = (a: Box, b: Box): number =>
  Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

/** @param fontSize of the labels; digits are taken to be 0.62 of it wide */
export function placeLabels(points: readonly LabelledPoint[], fontSize: number): readonly PlacedLabel[] {
  const taken: Box[] = points.map(({ x, y }) => ({
    left: x - markerRadius,
    right: x + markerRadius,
    top: y - markerRadius,
    bottom: y + markerRadius,
  }));
  return points.flatMap(({ x, y, label }, at): PlacedLabel[] => {
    if (label === "") return [];
    const [halfWidth, halfHeight] = [(label.length * fontSize * 0.62) / 2, fontSize * 0.4];
    let best: { readonly box: Box; readonly cost: number; readonly distance: number } | undefined;
    for (const distance of distances) {
      for (const direction of directions) {
        const angle = (direction * Math.PI) / 180;
        const [centreX, centreY] = [
          x + Math.cos(angle) * (distance + halfWidth - 3),
          y - Math.sin(angle) * distance,
        ];
        const box = {
          left: centreX - halfWidth,
          right: centreX + halfWidth,
          top: centreY - halfHeight,
          bottom: centreY + halfHeight,
        };
        const cost = taken.reduce((sum, other) => sum + overlap(box, other), 0);
        if (best === undefined || cost < best.cost) best = { box, cost, distance };
        if (cost === 0) break;
      }
      if (best?.cost === 0) break;
    }
    if (best === undefined) return [];
    taken.push(best.box);
    return [{ at, x: best.box.left, y: best.box.bottom, isMoved: best.distance > distances[0]! }];
  });
}
