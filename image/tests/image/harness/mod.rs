//! The harness on cards of its own making: a small FAT partition with a kernel
//! of a few instructions, which says a word on the console and does one thing.

#[cfg(test)]
mod boot;
#[cfg(test)]
mod card;
#[cfg(test)]
mod cards;
#[cfg(test)]
mod firmware;
#[cfg(test)]
mod machine;
