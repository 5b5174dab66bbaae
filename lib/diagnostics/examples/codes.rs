//! Prints `docs/reference/codes.md`; `make generate` writes it.

fn main() {
    print!("{}", weaver_diagnostics::catalogue::page());
}
