//! The binary: runs the command that it is asked for.

use std::process::ExitCode;

/// Rendering is small strings, made and dropped by the thousand on several threads: with the system's allocator a mail costs
/// a third more CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    delivery_worker::cli::main(std::env::args_os()).into()
}
