//! The binary: parses the command line and runs one command.

fn main() {}
