# Install rules: see below.
