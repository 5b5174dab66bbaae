//! The harness on cards of its own making: a small FAT partition with a kernel of a few instructions, which prints a
//! word on the console and does one thing.

mod boot;
mod card;
mod cards;
mod firmware;
mod machine;
