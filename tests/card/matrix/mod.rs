//! The fault matrix of the card: each fault induced as it happens to a board in a cupboard, what is expected of the
//! units, the codes and the card compared with what is seen, the printed remedy typed, and all well again. Each test
//! leaves its row for docs/tutorials/faults.md from its begin on, failed ones too.

mod air_gapped;
mod boot_partition;
mod clock;
mod data_disk;
mod fault;
mod imager;
mod joined;
mod kernel_trial;
mod killed;
mod memory;
mod names;
mod network;
mod power_cuts;
mod restored;
mod space;
mod strangers;
mod stuck;
mod updated;
mod weaver_toml;
