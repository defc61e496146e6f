// Colours of differences: orange grows, blue shrinks, grey stays, stronger with the share that changed.

export function changeFill(delta: number, larger: number, dark: boolean): string {
  if (delta === 0) return dark ? 'hsl(30 3% 27%)' : 'hsl(30 8% 88%)';
  const k = Math.round(6 * Math.min(1, Math.abs(delta) / Math.max(larger, 1e-12))) / 6;
  if (delta > 0)
    return dark ? `hsl(24 ${38 + 24 * k}% ${28 + 8 * k}%)` : `hsl(28 ${78 + 14 * k}% ${88 - 20 * k}%)`;
  return dark ? `hsl(212 ${30 + 24 * k}% ${29 + 9 * k}%)` : `hsl(210 ${62 + 12 * k}% ${89 - 18 * k}%)`;
}
