//! Whoever can write the FAT partition of a card, or what an editor leaves there.
