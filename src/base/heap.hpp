// The heap of this process.
#pragma once

namespace kvasir {

// Blocks of all sizes come and go, and what they leave in the heap stays resident although it is free: a third of a
// store's budget after a minute of churn. glibc gives whole pages back when it is asked to; others do it by themselves
// or not. The time grows with the number of free blocks: call it once per some MiB that were freed.
void return_free_memory();

}  // namespace kvasir
