"""Parts of the commands in `scripts/`. Nothing in the product imports them."""
