//! The card image as a file and as a running machine. `make image-smoke` builds it, boots it once and runs these,
//! which are ignored elsewhere: they need the image that `WEAVER_IMAGE` names, and most continue from the machine
//! that `weaver-image with-booted` has kept. `pi3` boots by itself, by `make image-pi3`; `matrix` is the whole fault
//! matrix, by `make image-matrix`, and `soak` what the card costs, by `make soak`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed step of a test ends the test"
)]

mod assembly;
mod faults;
mod first_boot;
mod inspection;
mod k3d;
mod laptop;
mod matrix;
mod node;
mod page;
mod pi3;
mod poll;
mod root;
mod second_card;
mod security_updates;
mod soak;
