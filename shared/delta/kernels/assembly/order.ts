// Floats' bits as integers in the order of their values, and back. orderMask: -1 for floats, 0 leaves integers as they are.
@inline export function ordered(bits: u32, orderMask: i32): u32 { return bits ^ ((<u32>(<i32>bits >> 31) | 0x80000000) & <u32>orderMask); }
@inline export function unordered(rank: u32, orderMask: i32): u32 { return rank ^ ((<u32>(<i32>~rank >> 31) | 0x80000000) & <u32>orderMask); }
